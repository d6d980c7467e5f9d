// The packet a client sent, and which of its statements an event of the server belongs to.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// A packet holds one statement or several. The server reports the begin of the first and the end of each; the packet's end follows.
// Statements inside a statement (procedures, triggers, EXECUTE) have reports of the same kinds. The server's copy of a packet stays
// where it is while its statements run, and their texts point into it.
//
// A server that reports each statement's begin reports each as a packet of its own.
#pragma once

#include "server.h"
#include "text.h"

namespace flifo {

// A report of the server about a statement or a packet. An end of what was prepared may be OTHER.
struct Event {
  // What the client, or the server on its behalf, has asked for.
  enum class Request : unsigned char {
    OTHER,
    // A text with one statement or several.
    QUERY,
    // A prepared statement; also one that a statement inside runs.
    EXECUTE,
    // A prepared statement, for many rows of parameters.
    BULK_EXECUTE,
    // The session is reset.
    RESET,
  };

  Request request;
  bool has_failed;
  // Of an error: it says that EXECUTE failed before it ran anything.
  bool is_of_execute;
  const char *text;
  unsigned length;
  // The statement's; 0: not known.
  unsigned long long id;

  bool runs_statements() const { return request != Request::OTHER && request != Request::RESET; }
};

class Packet {
 public:
  // A packet begins with this event; null: a statement begins of which the packet is not known.
  void begin(const Event *event);
  bool is_known() const { return text != nullptr; }

  // A statement of the packet begins. 0: its id is not known, as of all statements except the first.
  void begin_statement(unsigned long long id);
  // A statement inside it begins.
  void begin_sub_statement(const Event &event);
  bool has_sub_statement() const { return has_inner; }

  // Whether the event is the statement's own.
  bool owns(const Event &event) const;
  // Whether this end is of the statement that an EXECUTE ran. The EXECUTE's own follows, unless it failed.
  bool ends_executed_statement(const Event &event);
  // Whether another statement follows the one of this end.
  bool has_statement_after(server::Thread *thread, const Event &event) const;
  // The text after this statement; none after a text that an EXECUTE ran.
  Text rest_after(const Event &event) const;
  // Whether an error of the statement's own ends an EXECUTE before it ran anything: no event follows.
  bool is_ended_by_error(server::Thread *thread, const Event &event) const;

 private:
  bool contains(const Event &event) const;

  const char *text, *end;
  unsigned long long statement_id;
  // The statement is an EXECUTE, and what it executes has begun and not ended.
  bool executes;
  bool has_inner;
};

}  // namespace flifo
