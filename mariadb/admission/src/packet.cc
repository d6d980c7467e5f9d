// SPDX-License-Identifier: GPL-2.0-only

#include "packet.h"

#include <mysql/service_kill_statement.h>
#include <mysqld_error.h>

#include <cstdint>
#include <string_view>

namespace flifo {

bool runs_statements(const mysql_event_general &event) {
  return is_command(event, "Query") || is_command(event, "Execute") || is_command(event, "Bulk_execute");
}

void Packet::begin(const mysql_event_general *event) {
  text = event == nullptr ? nullptr : event->general_query;
  end = event == nullptr ? nullptr : text + event->general_query_length;
}

void Packet::begin_statement(unsigned long long id) {
  query_id = id;
  executes = has_inner = false;
}

void Packet::begin_sub_statement(const mysql_event_general &event) {
  has_inner = true;
  if (!is_command(event, "Execute")) return;
  // The statement that a client's EXECUTE runs is announced so, and has the same id.
  query_id = event.query_id;
  executes = true;
}

bool Packet::contains(const mysql_event_general &event) const {
  // As numbers, since pointers into different texts cannot be compared.
  const auto at = reinterpret_cast<uintptr_t>(event.general_query);
  return at >= reinterpret_cast<uintptr_t>(text) && at < reinterpret_cast<uintptr_t>(end);
}

bool Packet::owns(const mysql_event_general &event) const {
  // The text of an EXECUTE becomes the text it executed; then the id decides.
  return contains(event) || (query_id != 0 && event.query_id == query_id);
}

bool Packet::ends_executed_statement(const mysql_event_general &event) {
  if (!executes || event.general_error_code != 0 || !is_command(event, "Query") || contains(event)) return false;
  executes = false;
  return true;
}

bool Packet::has_statement_after(MYSQL_THD thd, const mysql_event_general &event) const {
  if (event.general_error_code != 0 || !is_command(event, "Query")) return false;
  const bool is_last = contains(event) && event.general_query + event.general_query_length >= end;
  return !is_last && thd_kill_level(thd) == THD_IS_NOT_KILLED;
}

Text Packet::rest_after(const mysql_event_general &event) const {
  // After the semicolon.
  const char *rest = event.general_query + event.general_query_length + 1;
  if (!contains(event) || rest >= end) return Text(nullptr, 0);
  return Text(rest, static_cast<unsigned>(end - rest));
}

bool Packet::is_ended_by_error(MYSQL_THD thd, const mysql_event_general &event) const {
  if (!has_inner && Command(thd).is_execute()) return true;
  // Where the server numbers statements differently: these two errors carry their text in place of the command, and it names
  // EXECUTE in every language. The statement's text is no help: EXECUTE may stand in a comment.
  if (event.general_error_code != ER_UNKNOWN_STMT_HANDLER && event.general_error_code != ER_WRONG_ARGUMENTS) return false;
  const std::string_view error(event.general_command, event.general_command_length);
  return error.find("EXECUTE") != std::string_view::npos;
}

}  // namespace flifo
