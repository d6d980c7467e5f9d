// What a session may hold that others wait for: locks of its transaction, and locks that outlive transactions.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// The server's public interface does not say whether a transaction has locked or written; it says that one is open and which
// statements ran. Functions, triggers and isolation levels lock unseen. So in a transaction any statement may have locked,
// and any statement except a plain SELECT is taken to have locked.
//
//   may_hold  holds   meaning                                             when the limit is reached
//   no        no      holds nothing                                       queues, may be refused
//   yes       no      may hold something, or a statement was not seen     queues, is never refused
//   yes       yes     holds locks                                         queues first, is never refused
//
// The scheduler is informed of two facts: the session's class, and whether it is in a transaction.
#pragma once

#include "command.h"
#include "text.h"

#include <flifo.h>

namespace flifo {

// How a statement ended, or ended its work.
struct Outcome {
  LockScope scope;
  Command command;
  bool has_failed;
  // It was refused, or killed in the queue: it did nothing.
  bool was_kept_out;
};

class Holdings {
 public:
  // A connection begins, of which nothing is known: it may hold anything.
  void begin(flifo_session_t of);
  // A client has just connected: it holds nothing.
  void on_connect();
  // A statement ran that was not seen, or whose end was not.
  void on_unseen_statement();
  // The server has freed everything, at a change of user or a reset of the connection.
  void on_session_reset();
  // A statement begins in a session that may hold locks.
  void on_begin(const LockScope &scope);
  // A statement's work is done; its last event is still to come.
  void on_work_done(const Outcome &outcome);
  // A statement ended.
  void on_end(const Outcome &outcome, const Text &text);
  // The session queues as a holder of locks until `queue_as_usual`.
  void queue_first();
  void queue_as_usual();

  bool may_hold_locks() const { return may_hold; }
  bool holds_locks() const { return holds; }
  // It may hold locks between two statements of a transaction.
  bool owns_rows_idle() const { return in_transaction && holds; }

 private:
  void set(bool may, bool does);
  void set_class(flifo_class_t to);
  void see_transaction(const Outcome &outcome);
  void set_in_transaction(bool is_in);

  flifo_session_t session;
  bool may_hold, holds, in_transaction;
  // What the scheduler was last informed of.
  flifo_class_t scheduler_class;
  bool scheduler_in_transaction;
};

}  // namespace flifo
