// SPDX-License-Identifier: GPL-2.0-only

#include "holdings.h"

namespace flifo {

void Holdings::begin(flifo_session_t of) {
  session = of;
  may_hold = true;
  holds = in_transaction = false;
  scheduler_class = FLIFO_CLASS_NORMAL;
  scheduler_in_transaction = false;
}

void Holdings::on_connect() { may_hold = false; }
void Holdings::on_unseen_statement() { may_hold = true; }

void Holdings::on_session_reset() { set_in_transaction(false); }

void Holdings::on_begin(const LockScope &scope) {
  if (scope.is_statement()) set(false, false);
}

void Holdings::on_work_done(const Outcome &outcome) {
  see_transaction(outcome);
  // The class decides at the release: a holder keeps its time slice, others make room for holders.
  if (outcome.scope.is_statement())
    set_class(FLIFO_CLASS_NORMAL);
  else if (!outcome.command.is_select() && !outcome.was_kept_out)
    set_class(FLIFO_CLASS_FIRST);
}

void Holdings::on_end(const Outcome &outcome, const Text &text) {
  const LockScope &scope = outcome.scope;
  const bool was_in_transaction = in_transaction;
  see_transaction(outcome);
  in_transaction = scope.has_transaction();
  if (scope.has_session_locks()) return set(true, true);
  // Without autocommit the next transaction is open at once.
  const bool has_ended = scope.is_implicit() && !outcome.has_failed && text.ends_transaction();
  const bool did_something = !outcome.was_kept_out && (was_in_transaction || !text.only_begins());
  const bool may = in_transaction && !has_ended && (may_hold || did_something);
  set(may, may && (holds || !outcome.command.is_select() || text.locks_rows_read()));
}

void Holdings::queue_first() { set_class(FLIFO_CLASS_FIRST); }
void Holdings::queue_as_usual() { set_class(holds ? FLIFO_CLASS_FIRST : FLIFO_CLASS_NORMAL); }

void Holdings::set(bool may, bool does) {
  may_hold = may;
  holds = does;
  // Even if nothing changed: `on_work_done` may have set another class.
  queue_as_usual();
}

void Holdings::set_class(flifo_class_t to) {
  if (scheduler_class == to) return;
  if (flifo_set_class(session, to) == FLIFO_OK) scheduler_class = to;
}

// Without autocommit the next transaction begins with the next statement.
void Holdings::see_transaction(const Outcome &outcome) {
  const bool has_ended = outcome.command.is_commit() || outcome.command.is_rollback();
  set_in_transaction(outcome.scope.has_begun_transaction() || (outcome.scope.is_implicit() && !has_ended));
}

void Holdings::set_in_transaction(bool is_in) {
  if (scheduler_in_transaction == is_in) return;
  if (flifo_set_in_transaction(session, is_in) == FLIFO_OK) scheduler_in_transaction = is_in;
}

}  // namespace flifo
