// SPDX-License-Identifier: GPL-2.0-only

#include "packet.h"

#include <cstdint>

namespace flifo {

void Packet::begin(const Event *event) {
  text = event == nullptr ? nullptr : event->text;
  end = event == nullptr ? nullptr : text + event->length;
}

void Packet::begin_statement(unsigned long long id) {
  statement_id = id;
  executes = has_inner = false;
}

void Packet::begin_sub_statement(const Event &event) {
  has_inner = true;
  if (event.request != Event::Request::EXECUTE) return;
  // The statement that a client's EXECUTE runs is announced so, and has the same id.
  statement_id = event.id;
  executes = true;
}

bool Packet::contains(const Event &event) const {
  // As numbers, since pointers into different texts cannot be compared.
  const auto at = reinterpret_cast<uintptr_t>(event.text);
  return at >= reinterpret_cast<uintptr_t>(text) && at < reinterpret_cast<uintptr_t>(end);
}

bool Packet::owns(const Event &event) const {
  // The text of an EXECUTE becomes the text it executed; then the id decides.
  return contains(event) || (statement_id != 0 && event.id == statement_id);
}

bool Packet::ends_executed_statement(const Event &event) {
  if (!executes || event.has_failed || event.request != Event::Request::QUERY || contains(event)) return false;
  executes = false;
  return true;
}

bool Packet::has_statement_after(server::Thread *thread, const Event &event) const {
  if (event.has_failed || event.request != Event::Request::QUERY) return false;
  const bool is_last = contains(event) && event.text + event.length >= end;
  return !is_last && !server::is_killed(thread);
}

Text Packet::rest_after(const Event &event) const {
  // After the semicolon.
  const char *rest = event.text + event.length + 1;
  if (!contains(event) || rest >= end) return Text(nullptr, 0);
  return Text(rest, static_cast<unsigned>(end - rest));
}

bool Packet::is_ended_by_error(server::Thread *thread, const Event &event) const {
  return event.is_of_execute || (!has_inner && server::command(thread).is_execute());
}

}  // namespace flifo
