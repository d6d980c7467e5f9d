// The packet a client sent, and which of its statements an event of the server belongs to.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// A packet holds one statement or several. The server announces the first (LOG) and reports the end of each (STATUS); RESULT
// ends the packet. Statements inside a statement (procedures, triggers, EXECUTE) have events of the same kinds. The server's
// copy of a packet stays where it is while its statements run, and their texts point into it.
#pragma once

#include "command.h"
#include "text.h"

#include <mysql/plugin_audit.h>

#include <cstring>

namespace flifo {

// Whether the event's command has this name.
template <size_t SIZE>
bool is_command(const mysql_event_general &event, const char (&name)[SIZE]) {
  return event.general_command_length == SIZE - 1 && memcmp(event.general_command, name, SIZE - 1) == 0;
}

// Whether the command runs statements. The event of PREPARE comes after its work.
bool runs_statements(const mysql_event_general &event);

class Packet {
 public:
  // A packet begins with this event; null: a statement begins of which the packet is not known.
  void begin(const mysql_event_general *event);
  bool is_known() const { return text != nullptr; }

  // A statement of the packet begins. 0: its id is not known, as of all statements but the first.
  void begin_statement(unsigned long long id);
  // A statement inside it begins.
  void begin_sub_statement(const mysql_event_general &event);
  bool has_sub_statement() const { return has_inner; }

  // Whether the event is the statement's own.
  bool owns(const mysql_event_general &event) const;
  // Whether this STATUS is of the statement that an EXECUTE ran. The EXECUTE's own follows, unless it failed.
  bool ends_executed_statement(const mysql_event_general &event);
  // Whether another statement follows the one of this STATUS. After the last one's RESULT none does.
  bool has_statement_after(MYSQL_THD thd, const mysql_event_general &event) const;
  // The text after this statement; none after a text that an EXECUTE ran.
  Text rest_after(const mysql_event_general &event) const;
  // Whether an error of the statement's own ends an EXECUTE before it ran anything: no event follows.
  bool is_ended_by_error(MYSQL_THD thd, const mysql_event_general &event) const;

 private:
  bool contains(const mysql_event_general &event) const;

  const char *text, *end;
  unsigned long long query_id;
  // The statement is an EXECUTE, and what it executes has begun and not ended.
  bool executes;
  bool has_inner;
};

}  // namespace flifo
