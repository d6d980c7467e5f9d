// SPDX-License-Identifier: GPL-2.0-only

#include "lifecycle.h"

#include "connection.h"
#include "dormancy.h"
#include "settings.h"
#include "status.h"
#include "text.h"

#include <mysql/plugin_audit.h>
#include <mysql/service_kill_statement.h>
#include <mysqld_error.h>

#include <atomic>

namespace flifo::lifecycle {
namespace {

// This thread is in `release_plugin`, so `on_release` is no end of a statement.
thread_local bool releases_plugin;
// The connection whose statement is loading the plugin.
std::atomic<MYSQL_THD> installing{nullptr};

// Only where the client's own statement may be under way: inside a routine the server answers for its definer.
void look_up_privileges(Connection &connection, MYSQL_THD thd) {
  Account &account = connection.account;
  if (!account.is_client || (account.is_known && !account.must_look_up)) return;
  account.is_admin = server::may_bypass(thd);
  account.is_known = true;
  account.must_look_up = false;
}

// Queues. The server ends a statement that was killed; for those it does not end see `keep_out`.
flifo_status_t queue(Connection &connection, MYSQL_THD thd) {
  const flifo_status_t status = queueing::enter(connection, thd);
  if (status == FLIFO_CANCELLED) connection.statement.kept_out = status;
  return status;
}

// Others may wait for its locks, so it is never refused.
void acquire_as_holder(Connection &connection, MYSQL_THD thd) {
  if (!rowlocks::must_admit_holder()) {
    const flifo_status_t status = queue(connection, thd);
    rowlocks::holder_left_queue();
    if (!queueing::is_refusal(status)) return;
  }
  flifo_enter_forced(connection.session);
}

// `rest` begins with the statement, and goes on to the packet's end.
void acquire(Connection &connection, MYSQL_THD thd, const Text &rest) {
  if (flifo_try_enter(connection.session) != FLIFO_NO_SLOT) return;
  const Purpose purpose = rest.purpose();
  // The server closes the connection if `init_connect` is refused.
  if (purpose == Purpose::URGENT || connection.account.is_connecting) {
    flifo_enter_forced(connection.session);
    return;
  }
  if (connection.holdings.may_hold_locks()) return acquire_as_holder(connection, thd);
  const flifo_status_t status = queue(connection, thd);
  if (!queueing::is_refusal(status)) return;
  if (purpose == Purpose::MINOR) {
    flifo_enter_forced(connection.session);
    return;
  }
  status::count_refusal();
  connection.statement.kept_out = status;
  queueing::fail(thd, status);
}

// For a statement inside another, which costs one ticket. Out of tickets it queues as a holder, since the locks of the whole
// are not known, and is not refused, since the whole was admitted.
void acquire_sub_statement(Connection &connection, MYSQL_THD thd) {
  // A commit ends with a forced entry and a new ticket: without this a procedure never queues.
  if (connection.statement.must_reacquire) flifo_exit(connection.session);
  connection.statement.must_reacquire = false;
  if (flifo_try_enter(connection.session) != FLIFO_NO_SLOT) return;
  connection.holdings.queue_first();
  acquire_as_holder(connection, thd);
  connection.holdings.queue_as_usual();
}

// A statement that touches no table, as SET does, is finished by the server although it was killed, and the kill is
// forgotten: the next one of the procedure would run without a slot.
void keep_out(const Connection &connection, MYSQL_THD thd) {
  if (connection.statement.kept_out != FLIFO_OK && thd_kill_level(thd) == THD_IS_NOT_KILLED)
    queueing::fail(thd, connection.statement.kept_out);
}

void begin_wait(Connection &connection, flifo_wait_kind_t kind) {
  if (waits::begin(connection, kind) && kind == FLIFO_WAIT_ROW_LOCK) rowlocks::begin_wait(connection);
}

void end_wait(Connection &connection) { if (waits::end(connection)) rowlocks::end_wait(connection); }

void begin_statement(Connection &connection, unsigned long long query_id, bool bypasses) {
  rowlocks::end_idle(connection);
  connection.statement = {true, bypasses, false, FLIFO_OK};
  connection.packet.begin_statement(query_id);
  connection.waits.depth = 0;
  connection.waits.is_commit = false;
}

void begin_admitted(Connection &connection, MYSQL_THD thd, unsigned long long query_id, const Text &rest) {
  begin_statement(connection, query_id, false);
  acquire(connection, thd, rest);
  // The server does not report the commit of these, so the statement is one wait as a whole.
  if (rest.commits_in_two_phases() && flifo_is_running(connection.session) == FLIFO_OK && server::logs_changes(thd))
    waits::begin_commit(connection);
}

// What runs inside it bypasses, too, whatever is set in between: it may have locked what others with slots wait for.
void begin_bypassing(Connection &connection, unsigned long long query_id) {
  begin_statement(connection, query_id, true);
  connection.holdings.on_unseen_statement();
}

void end_statement(Connection &connection) {
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

// Its last events are missing, and with them what it has locked.
void end_unseen(Connection &connection) {
  connection.holdings.on_unseen_statement();
  end_statement(connection);
}

Outcome outcome_of(const Connection &connection, MYSQL_THD thd, bool has_failed) {
  return {LockScope(thd), Command(thd), has_failed, connection.statement.kept_out != FLIFO_OK};
}

void reset_session(Connection &connection) {
  connection.holdings.on_session_reset();
  rowlocks::cancel_idle(connection);
}

void on_sub_statement(Connection &connection, MYSQL_THD thd, const mysql_event_general &event) {
  connection.packet.begin_sub_statement(event);
  if (connection.statement.bypasses) return;
  if (flifo_is_running(connection.session) == FLIFO_OK) return acquire_sub_statement(connection, thd);
  keep_out(connection, thd);
}

// Whether a statement is under way whose begin was not seen, such as a routine that ran when the plugin was loaded. Only
// RESULT shows its end.
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

void on_begin(MYSQL_THD thd, const mysql_event_general &event) {
  if (!runs_statements(event)) return;
  Connection *connection = connections::get(thd);
  const bool is_on = settings::is_on();
  if (connection == nullptr) {
    if (is_on) status::count_bypass();
    return;
  }
  if (was_dormant(*connection)) {
    // Any statement inside the client's may be the first to be announced.
    connection->packet.begin(nullptr);
    if (flifo_is_running(connection->session) == FLIFO_OK) return begin_bypassing(*connection, 0);
    see_after_dormancy(*connection);
  }
  if (connection->statement.is_active && !is_begin_unknown(*connection)) return on_sub_statement(*connection, thd, event);
  Account &account = connection->account;
  const bool is_known = account.is_client && account.is_known;
  connection->packet.begin(is_known ? &event : nullptr);
  account.is_connecting = account.is_connecting && server::runs_init_connect(thd);
  if (!is_on || !is_known || account.is_admin || settings::bypasses(thd)) {
    if (is_on) status::count_bypass();
    return begin_bypassing(*connection, is_known ? event.query_id : 0);
  }
  if (connection->holdings.may_hold_locks()) connection->holdings.on_begin(LockScope(thd));
  begin_admitted(*connection, thd, event.query_id, Text(event.general_query, event.general_query_length));
}

// The own end of the statement under way. Another of the packet may follow: only the first is announced.
void on_own_end(Connection &connection, MYSQL_THD thd, const mysql_event_general &event, const Text &text) {
  look_up_privileges(connection, thd);
  const bool bypasses = connection.statement.bypasses;
  if (!bypasses) connection.holdings.on_end(outcome_of(connection, thd, event.general_error_code != 0), text);
  end_statement(connection);
  const bool is_status = event.event_subclass == MYSQL_AUDIT_GENERAL_STATUS;
  if (!is_status || !connection.packet.has_statement_after(thd, event)) {
    if (!bypasses && connection.holdings.owns_rows_idle()) rowlocks::begin_idle(connection);
    return;
  }
  if (bypasses)
    begin_bypassing(connection, 0);
  else
    begin_admitted(connection, thd, 0, connection.packet.rest_after(event));
}

// RESULT, or a STATUS.
void on_end(MYSQL_THD thd, const mysql_event_general &event) {
  Connection *connection = connections::find(thd);
  if (connection == nullptr) return;
  const bool is_status = event.event_subclass == MYSQL_AUDIT_GENERAL_STATUS;
  if (is_command(event, "Reset connection")) reset_session(*connection);
  // A command that ended well is a client's: appliers and events run none. This shows clients that a pool of threads had before
  // the plugin, since a pool waits for commands without a thread.
  if (!is_status && was_dormant(*connection)) flifo_exit(connection->session);
  if (!is_status && !connection->account.is_client) connection->account.is_client = server::is_of_main_port(thd);
  if (!connection->statement.is_active) {
    if (!is_status) look_up_privileges(*connection, thd);
    return;
  }
  const Text text(event.general_query, event.general_query_length);
  // Also inside a statement: with another role the account may bypass, or no longer.
  if (text.sets_role()) connection->account.is_known = false;
  if (is_status && !connection->packet.owns(event)) return keep_out(*connection, thd);
  if (is_status && connection->packet.ends_executed_statement(event)) return;
  on_own_end(*connection, thd, event, text);
}

void on_error(MYSQL_THD thd, const mysql_event_general &event) {
  Connection *connection = connections::find(thd);
  if (connection == nullptr || !connection->statement.is_active || !connection->packet.owns(event)) return;
  if (connection->packet.is_ended_by_error(thd, event)) end_unseen(*connection);
}

void on_connect(MYSQL_THD thd) {
  if (!server::is_of_main_port(thd)) return;
  Connection *connection = connections::get(thd);
  if (connection == nullptr) return;
  if (connection->statement.is_active) end_statement(*connection);
  connection->account.is_client = connection->account.is_connecting = true;
  look_up_privileges(*connection, thd);
  connection->holdings.on_connect();
}

void on_change_user(MYSQL_THD thd, bool has_failed) {
  Connection *connection = connections::find(thd);
  if (connection == nullptr) return;
  end_statement(*connection);
  // The server has freed all locks before it checked the password.
  reset_session(*connection);
  // With a wrong password the account stays the same.
  if (has_failed) return;
  connection->account.is_known = connection->account.is_admin = false;
  look_up_privileges(*connection, thd);
}

bool is_client(MYSQL_THD thd) {
  const Connection *connection = connections::find(thd);
  return connection != nullptr && connection->account.is_client;
}

// The server releases a plugin after a client's command, if UNINSTALL ran since the thread acquired it. Three kinds of threads would
// keep it until they end: those of the server (appliers, the receiver of a semi-synchronous replica's replies), those that send the
// binary log, and a client that connected before UNINSTALL and sends its first command after it, since then the server takes the
// acquisition for a later one.
void release_plugin(MYSQL_THD thd) {
  releases_plugin = true;
  server::release_plugins(thd);
  releases_plugin = false;
}

// The connection whose admitted statement is under way; null if there is none.
Connection *find_admitted(MYSQL_THD thd) {
  Connection *connection = connections::find(thd);
  if (connection == nullptr || !connection->statement.is_active || connection->statement.bypasses) return nullptr;
  return connection;
}

// A wait for the client. Only a client's thread reads commands, so an idle one shows what the connection is, and that the
// statement is over if no event has shown its end. Inside a statement the wait may be for another server.
void see_network_wait(Connection &connection, MYSQL_THD thd) {
  // A client that has just connected may be silent forever.
  stages::run_deferred();
  server::saw_main_port(thd);
  if (connection.statement.is_active && server::is_idle(thd)) end_unseen(connection);
  if (was_dormant(connection) && server::is_idle(thd)) flifo_exit(connection.session);
  if (!connection.statement.is_active) connection.account.is_client = true;
}

// A wait begins while the plugin is dormant. The wait for the client's next command ends the one before. Waits for row locks are not
// seen: a statement keeps running in them.
void begin_wait_dormant(MYSQL_THD thd, flifo_wait_kind_t kind) {
  const bool is_network = kind == FLIFO_WAIT_NETWORK;
  Connection *connection = is_network ? connections::get(thd) : connections::find(thd);
  if (connection == nullptr) return;
  if (is_network) {
    see_network_wait(*connection, thd);
    if (server::is_idle(thd)) {
      connection->waits.depth = 0;
      flifo_exit(connection->session);
      return;
    }
  }
  if (connection->waits.depth == 0 && (kind == FLIFO_WAIT_ROW_LOCK || flifo_is_running(connection->session) != FLIFO_OK)) return;
  begin_wait(*connection, kind);
}

// A wait that is not known has ended while the plugin is dormant: a command has come.
void end_wait_dormant(Connection &connection, MYSQL_THD thd) {
  const Account &account = connection.account;
  if (!server::is_idle(thd) || !account.is_client) return;
  if (account.is_admin) return status::count_bypass();
  // A limit has come into force. The events of this command follow.
  if (flifo_enter_uncounted(connection.session) == FLIFO_NO_SLOT) dormancy::wake(settings::admission());
}

// No event has shown the statement's begin. So the plugin is leaving; INSTALL has then no effect, which the server does not report.
void see_install(MYSQL_THD thd) {
  char text[200];
  const unsigned length = server::query_text(thd, text, sizeof text);
  if (!Text(text, length).installs_flifo()) return;
  if (installing.exchange(nullptr) == thd) return;
  my_printf_error(ER_UNKNOWN_ERROR, "flifo: not installed: clients that have been idle since UNINSTALL keep the plugin; try again later", 0);
}

void on_work_done(MYSQL_THD thd) {
  if (const Connection *any = connections::find(thd); any == nullptr || !any->statement.is_active) return see_install(thd);
  Connection *connection = find_admitted(thd);
  if (connection == nullptr || connection->waits.depth != 0) return;
  connection->holdings.on_work_done(outcome_of(*connection, thd, false));
  flifo_exit(connection->session);
}

// Whether the commit that begins has changes, as far as is known. The commit of a statement in a transaction has none.
bool has_changes(const Connection &connection, MYSQL_THD thd) {
  const Command command(thd);
  if (!LockScope(thd).has_transaction()) return !command.is_select();
  // Statements inside a procedure are not known.
  return command.is_commit() && (connection.holdings.holds_locks() || connection.packet.has_sub_statement());
}

void on_commit_begin(MYSQL_THD thd) {
  Connection *connection = find_admitted(thd);
  if (connection == nullptr) return;
  waits::State &waits = connection->waits;
  if (waits.is_commit)
    waits.nested_commits++;
  else if (waits.depth == 0 && server::logs_changes(thd) && has_changes(*connection, thd))
    waits::begin_commit(*connection);
}

void on_commit_end(MYSQL_THD thd) {
  Connection *connection = find_admitted(thd);
  if (connection == nullptr || !waits::ends_commit(*connection)) return;
  // With any wait inside it.
  while (connection->waits.depth != 0) end_wait(*connection);
  connection->statement.must_reacquire = connection->packet.has_sub_statement() && !LockScope(thd).has_session_locks();
}

}  // namespace

void open() { installing = server::current(); }

void on_general(MYSQL_THD thd, const mysql_event_general &event) {
  // Errors outside of any connection have no THD.
  if (thd == nullptr || dormancy::is_on()) return;
  if (event.event_subclass == MYSQL_AUDIT_GENERAL_LOG)
    on_begin(thd, event);
  else if (event.event_subclass == MYSQL_AUDIT_GENERAL_ERROR)
    on_error(thd, event);
  else
    on_end(thd, event);
  if (!is_client(thd)) stages::at_next_stage(release_plugin);
}

void on_connection(MYSQL_THD thd, const mysql_event_connection &event) {
  const bool has_failed = event.status != 0;
  if (event.event_subclass == MYSQL_AUDIT_CONNECTION_CONNECT && !has_failed) {
    on_connect(thd);
    stages::at_next_stage(release_plugin);
  }
  if (event.event_subclass == MYSQL_AUDIT_CONNECTION_CHANGE_USER) on_change_user(thd, has_failed);
  if (event.event_subclass == MYSQL_AUDIT_CONNECTION_DISCONNECT) connections::end(thd);
}

void on_release(MYSQL_THD thd) {
  if (releases_plugin) return;
  Connection *connection = connections::find(thd);
  if (connection != nullptr && connection->statement.is_active) end_unseen(*connection);
}

void on_wait_begin(MYSQL_THD thd, int server_kind) {
  server::wait_begin_before(thd, server_kind);
  const flifo_wait_kind_t kind = waits::kind_of(server_kind);
  if (dormancy::is_on()) return begin_wait_dormant(thd, kind);
  if (kind == FLIFO_WAIT_NETWORK)
    if (Connection *connection = connections::get(thd)) see_network_wait(*connection, thd);
  if (Connection *connection = find_admitted(thd)) begin_wait(*connection, kind);
}

void on_wait_end(MYSQL_THD thd) {
  server::wait_end_before(thd);
  Connection *connection = connections::find(thd);
  // The wait may have begun before the plugin was loaded, or before the statement.
  if (connection == nullptr) return;
  if (connection->waits.depth != 0) return end_wait(*connection);
  if (dormancy::is_on()) end_wait_dormant(*connection, thd);
}

void on_stage(MYSQL_THD thd, stages::Stage stage) {
  switch (stage) {
    case stages::Stage::WORK_DONE: return on_work_done(thd);
    case stages::Stage::COMMIT: return on_commit_begin(thd);
    case stages::Stage::COMMIT_END: return on_commit_end(thd);
    case stages::Stage::SENDS_BINLOG: return release_plugin(thd);
    case stages::Stage::OTHER:
      return;
  }
}

}  // namespace flifo::lifecycle
