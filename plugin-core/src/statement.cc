// SPDX-License-Identifier: GPL-2.0-only

#include "statement.h"

#include "connection.h"
#include "status.h"

namespace flifo::statements {
namespace {

// Queues. The server ends a statement that was killed; for those it does not end see `keep_out`.
flifo_status_t queue(Connection &connection, server::Thread *thread) {
  const flifo_status_t status = queueing::enter(connection, thread);
  if (status == FLIFO_CANCELLED) connection.statement.kept_out = status;
  return status;
}

// Others may wait for its locks, so it is never refused.
void acquire_as_holder(Connection &connection, server::Thread *thread) {
  if (!rowlocks::must_admit_holder()) {
    const flifo_status_t status = queue(connection, thread);
    rowlocks::holder_left_queue();
    if (!queueing::is_refusal(status)) return;
  }
  flifo_enter_forced(connection.session);
}

// `rest` begins with the statement, and goes on to the packet's end.
void acquire(Connection &connection, server::Thread *thread, const Text &rest) {
  if (flifo_try_enter(connection.session) != FLIFO_NO_SLOT) return;
  const Purpose purpose = rest.purpose();
  // The server closes the connection if `init_connect` is refused.
  if (purpose == Purpose::URGENT || connection.account.is_connecting) {
    flifo_enter_forced(connection.session);
    return;
  }
  if (connection.holdings.may_hold_locks()) return acquire_as_holder(connection, thread);
  const flifo_status_t status = queue(connection, thread);
  if (!queueing::is_refusal(status)) return;
  if (purpose == Purpose::MINOR) {
    flifo_enter_forced(connection.session);
    return;
  }
  status::count_refusal();
  connection.statement.kept_out = status;
  queueing::fail(thread, status);
}

// For a statement inside another, which costs one ticket. Out of tickets it queues as a holder, since the locks of the whole
// are not known, and is not refused, since the whole was admitted.
void acquire_inside(Connection &connection, server::Thread *thread) {
  // A commit ends with a forced entry and a new ticket: without this a procedure never queues.
  if (connection.statement.must_reacquire) flifo_exit(connection.session);
  connection.statement.must_reacquire = false;
  if (flifo_try_enter(connection.session) != FLIFO_NO_SLOT) return;
  connection.holdings.queue_first();
  acquire_as_holder(connection, thread);
  connection.holdings.queue_as_usual();
}

void begin(Connection &connection, unsigned long long id, bool bypasses) {
  rowlocks::end_idle(connection);
  connection.statement = {true, bypasses, false, FLIFO_OK};
  connection.packet.begin_statement(id);
  connection.waits.depth = 0;
  connection.waits.is_commit = false;
}

}  // namespace

void keep_out(const Connection &connection, server::Thread *thread) {
  if (connection.statement.kept_out != FLIFO_OK && !server::is_killed(thread))
    queueing::fail(thread, connection.statement.kept_out);
}

void begin_wait(Connection &connection, flifo_wait_kind_t kind) {
  if (waits::begin(connection, kind) && kind == FLIFO_WAIT_ROW_LOCK) rowlocks::begin_wait(connection);
}

void end_wait(Connection &connection) { if (waits::end(connection)) rowlocks::end_wait(connection); }

void begin_admitted(Connection &connection, server::Thread *thread, unsigned long long id, const Text &rest) {
  begin(connection, id, false);
  acquire(connection, thread, rest);
  // The server does not report the commit of these, so the statement is one wait as a whole.
  if (rest.commits_in_two_phases() && flifo_is_running(connection.session) == FLIFO_OK && server::hides_commit_waits(thread))
    waits::begin_commit(connection);
}

// What runs inside it bypasses, too, whatever is set in between: it may have locked what others with slots wait for.
void begin_bypassing(Connection &connection, unsigned long long id) {
  begin(connection, id, true);
  connection.holdings.on_unseen_statement();
}

void begin_inside(Connection &connection, server::Thread *thread) {
  if (connection.statement.bypasses) return;
  if (flifo_is_running(connection.session) == FLIFO_OK) return acquire_inside(connection, thread);
  keep_out(connection, thread);
}

void end(Connection &connection) {
  const bool bypassed = connection.statement.bypasses;
  connection.statement.is_active = connection.statement.bypasses = false;
  if (bypassed) return;
  const bool was_in_commit = connection.waits.is_commit;
  connection.waits.is_commit = false;
  // Not running if it was refused, if it waits, or if the limit was lifted. Released before the commit's wait ends, so that
  // the end needs no slot.
  if (was_in_commit) flifo_exit(connection.session);
  while (was_in_commit && connection.waits.depth != 0) end_wait(connection);
  rowlocks::end_wait(connection);
  flifo_exit(connection.session);
}

void end_unseen(Connection &connection) {
  connection.holdings.on_unseen_statement();
  end(connection);
}

Outcome outcome_of(const Connection &connection, server::Thread *thread, bool has_failed) {
  return {server::lock_scope(thread), server::command(thread), has_failed, connection.statement.kept_out != FLIFO_OK};
}

}  // namespace flifo::statements
