// SPDX-License-Identifier: GPL-2.0-only

#include "lifecycle.h"

#include "connection.h"
#include "dormancy.h"
#include "settings.h"
#include "status.h"
#include "text.h"

namespace flifo::lifecycle {
namespace {

// Only where the client's own statement may be under way: inside a routine the server answers for its definer.
void look_up_privileges(Connection &connection, server::Thread *thread) {
  Account &account = connection.account;
  if (!account.is_client || (account.is_known && !account.must_look_up)) return;
  account.is_admin = server::may_bypass(thread);
  account.is_known = true;
  account.must_look_up = false;
}

void reset_session(Connection &connection) {
  connection.holdings.on_session_reset();
  rowlocks::cancel_idle(connection);
}

// Whether a statement is under way whose begin was not seen, such as a routine that ran when the plugin was loaded. Only
// the packet's end shows its end.
bool is_begin_unknown(const Connection &connection) {
  return connection.statement.is_active && connection.statement.bypasses && !connection.packet.is_known();
}

// Whether the statement that an event belongs to began while the plugin was dormant, or the connection has not been seen since.
bool was_dormant(const Connection &connection) { return connection.dormant_period != dormancy::period(); }

// The first event of a statement since the plugin was dormant.
void see_after_dormancy(Connection &connection) {
  connection.dormant_period = dormancy::period();
  connection.holdings.on_unseen_statement();
  // SET ROLE may have run.
  connection.account.must_look_up = true;
}

// The own end of the statement under way. Another of the packet may follow: only the first is announced.
void on_own_end(Connection &connection, server::Thread *thread, const Event &event, const Text &text, bool is_statement) {
  look_up_privileges(connection, thread);
  const bool bypasses = connection.statement.bypasses;
  if (!bypasses) connection.holdings.on_end(statements::outcome_of(connection, thread, event.has_failed), text);
  statements::end(connection);
  if (!is_statement || !connection.packet.has_statement_after(thread, event)) {
    if (!bypasses && connection.holdings.owns_rows_idle()) rowlocks::begin_idle(connection);
    return;
  }
  if (bypasses)
    statements::begin_bypassing(connection, 0);
  else
    statements::begin_admitted(connection, thread, 0, connection.packet.rest_after(event));
}

// The end of a statement, or of a packet.
void on_end(server::Thread *thread, const Event &event, bool is_statement) {
  Connection *connection = connections::find(thread);
  if (connection == nullptr) return;
  if (event.request == Event::Request::RESET) reset_session(*connection);
  // A command that ended well is a client's: appliers and events run none. This shows clients that a pool of threads had before
  // the plugin, since a pool waits for commands without a thread.
  if (!is_statement && was_dormant(*connection)) flifo_exit(connection->session);
  if (!is_statement && !connection->account.is_client) connection->account.is_client = server::is_of_main_port(thread);
  if (!connection->statement.is_active) {
    if (!is_statement) look_up_privileges(*connection, thread);
    return;
  }
  const Text text(event.text, event.length);
  // Also inside a statement: with another role the account may bypass, or no longer.
  if (text.sets_role()) connection->account.is_known = false;
  if (is_statement && !connection->packet.owns(event)) return statements::keep_out(*connection, thread);
  if (is_statement && connection->packet.ends_executed_statement(event)) return;
  on_own_end(*connection, thread, event, text, is_statement);
}

// The connection whose admitted statement is under way; null if there is none.
Connection *find_admitted(server::Thread *thread) {
  Connection *connection = connections::find(thread);
  if (connection == nullptr || !connection->statement.is_active || connection->statement.bypasses) return nullptr;
  return connection;
}

// A wait for the client. Only a client's thread reads commands, so an idle one shows what the connection is, and that the
// statement is over if no event has shown its end. Inside a statement the wait may be for another server.
void see_network_wait(Connection &connection, server::Thread *thread) {
  if (connection.statement.is_active && server::is_idle(thread)) statements::end_unseen(connection);
  if (was_dormant(connection) && server::is_idle(thread)) flifo_exit(connection.session);
  if (!connection.statement.is_active) connection.account.is_client = true;
}

// A wait begins while the plugin is dormant. The wait for the client's next command ends the one before. Waits for row locks are not
// seen: a statement keeps running in them.
void begin_wait_dormant(server::Thread *thread, flifo_wait_kind_t kind) {
  const bool is_network = kind == FLIFO_WAIT_NETWORK;
  Connection *connection = is_network ? connections::get(thread) : connections::find(thread);
  if (connection == nullptr) return;
  if (is_network) {
    see_network_wait(*connection, thread);
    if (server::is_idle(thread)) {
      connection->waits.depth = 0;
      flifo_exit(connection->session);
      return;
    }
  }
  if (connection->waits.depth == 0 && (kind == FLIFO_WAIT_ROW_LOCK || flifo_is_running(connection->session) != FLIFO_OK)) return;
  statements::begin_wait(*connection, kind);
}

// A wait that is not known has ended while the plugin is dormant: a command has come.
void end_wait_dormant(Connection &connection, server::Thread *thread) {
  const Account &account = connection.account;
  if (!server::is_idle(thread) || !account.is_client) return;
  if (account.is_admin) return status::count_bypass();
  // A limit has come into force. The events of this command follow.
  if (flifo_enter_uncounted(connection.session) == FLIFO_NO_SLOT) dormancy::wake(settings::admission());
}

// Whether the commit that begins has changes, as far as is known. The commit of a statement in a transaction has none.
bool has_changes(const Connection &connection, server::Thread *thread) {
  const Command command = server::command(thread);
  if (!server::lock_scope(thread).has_transaction()) return !command.is_select();
  // Statements inside a procedure are not known.
  return command.is_commit() && (connection.holdings.holds_locks() || connection.packet.has_sub_statement());
}

}  // namespace

void on_statement_begin(server::Thread *thread, const Event &event) {
  if (!event.runs_statements()) return;
  Connection *connection = connections::get(thread);
  const bool is_on = settings::is_on();
  if (connection == nullptr) {
    if (is_on) status::count_bypass();
    return;
  }
  if (was_dormant(*connection)) {
    // Any statement inside the client's may be the first to be announced.
    connection->packet.begin(nullptr);
    if (flifo_is_running(connection->session) == FLIFO_OK) return statements::begin_bypassing(*connection, 0);
    see_after_dormancy(*connection);
  }
  if (connection->statement.is_active && !is_begin_unknown(*connection)) {
    connection->packet.begin_sub_statement(event);
    return statements::begin_inside(*connection, thread);
  }
  Account &account = connection->account;
  const bool is_known = account.is_client && account.is_known;
  connection->packet.begin(is_known ? &event : nullptr);
  account.is_connecting = account.is_connecting && server::runs_init_connect(thread);
  if (!is_on || !is_known || account.is_admin || server::has_bypass_set(thread)) {
    if (is_on) status::count_bypass();
    return statements::begin_bypassing(*connection, is_known ? event.id : 0);
  }
  if (connection->holdings.may_hold_locks()) connection->holdings.on_begin(server::lock_scope(thread));
  statements::begin_admitted(*connection, thread, event.id, Text(event.text, event.length));
}

void on_statement_end(server::Thread *thread, const Event &event) { on_end(thread, event, true); }
void on_packet_end(server::Thread *thread, const Event &event) { on_end(thread, event, false); }

void on_error(server::Thread *thread, const Event &event) {
  Connection *connection = connections::find(thread);
  if (connection == nullptr || !connection->statement.is_active || !connection->packet.owns(event)) return;
  if (connection->packet.is_ended_by_error(thread, event)) statements::end_unseen(*connection);
}

void on_connect(server::Thread *thread) {
  if (!server::is_of_main_port(thread)) return;
  Connection *connection = connections::get(thread);
  if (connection == nullptr) return;
  if (connection->statement.is_active) statements::end(*connection);
  connection->account.is_client = connection->account.is_connecting = true;
  look_up_privileges(*connection, thread);
  connection->holdings.on_connect();
}

void on_change_user(server::Thread *thread, bool has_failed) {
  Connection *connection = connections::find(thread);
  if (connection == nullptr) return;
  statements::end(*connection);
  // The server has freed all locks before it checked the password.
  reset_session(*connection);
  // With a wrong password the account stays the same.
  if (has_failed) return;
  connection->account.is_known = connection->account.is_admin = false;
  look_up_privileges(*connection, thread);
}

void on_disconnect(server::Thread *thread) { connections::end(thread); }

void on_release(server::Thread *thread) {
  Connection *connection = connections::find(thread);
  if (connection != nullptr && connection->statement.is_active) statements::end_unseen(*connection);
}

void on_wait_begin(server::Thread *thread, flifo_wait_kind_t kind) {
  if (dormancy::is_on()) return begin_wait_dormant(thread, kind);
  if (kind == FLIFO_WAIT_NETWORK)
    if (Connection *connection = connections::get(thread)) see_network_wait(*connection, thread);
  if (Connection *connection = find_admitted(thread)) statements::begin_wait(*connection, kind);
}

void on_wait_end(server::Thread *thread) {
  Connection *connection = connections::find(thread);
  // The wait may have begun before the plugin was loaded, or before the statement.
  if (connection == nullptr) return;
  if (connection->waits.depth != 0) return statements::end_wait(*connection);
  if (dormancy::is_on()) end_wait_dormant(*connection, thread);
}

bool on_work_done(server::Thread *thread) {
  Connection *connection = connections::find(thread);
  if (connection == nullptr || !connection->statement.is_active) return false;
  if (connection->statement.bypasses || connection->waits.depth != 0) return true;
  connection->holdings.on_work_done(statements::outcome_of(*connection, thread, false));
  flifo_exit(connection->session);
  return true;
}

void on_commit_begin(server::Thread *thread) {
  Connection *connection = find_admitted(thread);
  if (connection == nullptr) return;
  waits::State &waits = connection->waits;
  if (waits.is_commit)
    waits.nested_commits++;
  else if (waits.depth == 0 && server::hides_commit_waits(thread) && has_changes(*connection, thread))
    waits::begin_commit(*connection);
}

void on_commit_end(server::Thread *thread) {
  Connection *connection = find_admitted(thread);
  if (connection == nullptr || !waits::ends_commit(*connection)) return;
  // With any wait inside it.
  while (connection->waits.depth != 0) statements::end_wait(*connection);
  connection->statement.must_reacquire = connection->packet.has_sub_statement() && !server::lock_scope(thread).has_session_locks();
}

bool is_client(server::Thread *thread) {
  const Connection *connection = connections::find(thread);
  return connection != nullptr && connection->account.is_client;
}

}  // namespace flifo::lifecycle
