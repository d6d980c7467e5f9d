// SPDX-License-Identifier: GPL-2.0-only

#include "statement.h"

#include "queueing.h"
#include "rowlocks.h"
#include "settings.h"
#include "lending.h"
#include "text.h"
#include "waits.h"

#include <mysql/service_kill_statement.h>
#include <mysqld_error.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

namespace flifo::statement {

std::atomic<unsigned long long> bypassed{0}, refused_timeout{0}, refused_queue_full{0};

namespace {

// Bits of the server's session options, as `thd_test_options` knows them in every MariaDB since 5.1.
constexpr long long OPTION_NOT_AUTOCOMMIT = 1LL << 19;
constexpr long long OPTION_BEGIN = 1LL << 20;
constexpr long long OPTION_TABLE_LOCK = 1LL << 21;
// The numbers of SELECT, ROLLBACK, COMMIT and EXECUTE among the server's statements: the first since ever, the others in MariaDB 10.11 to 11.8.
constexpr int SQLCOM_SELECT = 0, SQLCOM_ROLLBACK = 52, SQLCOM_COMMIT = 54, SQLCOM_EXECUTE = 97;
// The isolation level in which a plain SELECT of a transaction locks what it reads.
constexpr int ISO_SERIALIZABLE = 3;

template <size_t SIZE>
bool is_command(const mysql_event_general &event, const char (&name)[SIZE]) {
  return event.general_command_length == SIZE - 1 && memcmp(event.general_command, name, SIZE - 1) == 0;
}

// The commands that run statements. PREPARE's event comes after its work.
bool runs_a_statement(const mysql_event_general &event) {
  return is_command(event, "Query") || is_command(event, "Execute") || is_command(event, "Bulk_execute");
}

// The server's copy of a packet stays where it is while its statements run, and their texts point into it.
bool is_of_packet(const Connection &connection, const mysql_event_general &event) {
  // Nothing is known of pointers into different texts but their numbers.
  const auto at = reinterpret_cast<uintptr_t>(event.general_query);
  return at >= reinterpret_cast<uintptr_t>(connection.packet) &&
         at < reinterpret_cast<uintptr_t>(connection.packet_end);
}

// Whether an event is the statement's itself, and not of one within it. What EXECUTE leaves as its text is the one that
// it executed: then the id tells.
bool is_own(const Connection &connection, const mysql_event_general &event) {
  return is_of_packet(connection, event) || (connection.query_id != 0 && event.query_id == connection.query_id);
}

// Whether another statement of the packet follows the one whose STATUS this is. The last one's comes after its RESULT,
// which ended it; but not if it failed or was killed.
bool another_follows(const Connection &connection, MYSQL_THD thd, const mysql_event_general &event) {
  if (event.general_error_code != 0 || !is_command(event, "Query")) return false;
  const bool is_last = is_of_packet(connection, event) &&
                       event.general_query + event.general_query_length >= connection.packet_end;
  return !is_last && thd_kill_level(thd) == THD_IS_NOT_KILLED;
}

// What stands in the packet after this statement. Nothing is known after one whose text is what an EXECUTE executed.
Text rest_of_packet(const Connection &connection, const mysql_event_general &event) {
  // After the semicolon.
  const char *rest = event.general_query + event.general_query_length + 1;
  if (!is_of_packet(connection, event) || rest >= connection.packet_end) return Text(nullptr, 0);
  return Text(rest, static_cast<unsigned>(connection.packet_end - rest));
}

// What makes locks outlive a statement: an open transaction, or LOCK TABLES. Without any, the next holds none.
long long what_keeps_locks(MYSQL_THD thd) {
  return thd_test_options(thd, OPTION_BEGIN | OPTION_NOT_AUTOCOMMIT | OPTION_TABLE_LOCK);
}

void set_class(Connection &connection, flifo_class_t to) {
  if (connection.session_class == to) return;
  if (flifo_set_class(connection.session, to) == FLIFO_OK) connection.session_class = to;
}

void tell_in_transaction(Connection &connection, bool is_in) {
  if (connection.told_in_transaction == is_in) return;
  if (flifo_set_in_transaction(connection.session, is_in) == FLIFO_OK) connection.told_in_transaction = is_in;
}

// `keeps`: what makes locks outlive the statement. The next transaction of a session without autocommit begins with its next statement.
void saw_transaction(Connection &connection, MYSQL_THD thd, long long keeps) {
  const int command = thd_sql_command(thd);
  tell_in_transaction(connection, (keeps & OPTION_BEGIN) != 0 || ((keeps & OPTION_NOT_AUTOCOMMIT) != 0 &&
                                                                  command != SQLCOM_COMMIT && command != SQLCOM_ROLLBACK));
}

// Whether it changes nothing and locks nothing, as far as that can be seen.
bool only_reads(const Connection &connection, MYSQL_THD thd, const Text &text) {
  // What follows in a packet may be anything.
  if (text.has_more_than_one()) return false;
  if (text.ends_transaction()) return !connection.holds_locks;
  if (!text.only_reads() || text.session_locks().taken != 0) return false;
  return what_keeps_locks(thd) == 0 || thd_tx_isolation(thd) != ISO_SERIALIZABLE;
}

void set_locks(Connection &connection, bool may_hold, bool holds) {
  connection.may_hold_locks = may_hold;
  connection.holds_locks = holds;
  // Whatever was held: `on_work_done` has set the class by what could be seen then.
  set_class(connection, holds ? FLIFO_CLASS_FIRST : FLIFO_CLASS_NORMAL);
}

// Keeps account of the transaction, so that those who hold locks go first. The public interface does not say
// whether a transaction has locked or written; that one is open, and what statements it ran, it says. Functions,
// triggers and isolation levels lock unseen, so any statement may have; one that is no SELECT is taken to have.
void saw_end_of(Connection &connection, MYSQL_THD thd, const mysql_event_general &event, const Text &text) {
  const long long keeps = what_keeps_locks(thd), transaction = keeps & ~OPTION_TABLE_LOCK;
  const bool was_open = connection.in_transaction, held = connection.holds_locks;
  saw_transaction(connection, thd, keeps);
  connection.in_transaction = transaction != 0;
  if (keeps != transaction || connection.session_locks != 0) {
    connection.has_only_read = false;
    return set_locks(connection, true, true);
  }
  // Without autocommit the next one is open at once. One that failed, or was killed in the queue, has ended nothing.
  const bool ended = transaction == OPTION_NOT_AUTOCOMMIT && event.general_error_code == 0 && text.ends_transaction();
  // Nor has it locked anything if it was kept out.
  const bool did_something = connection.kept_out == FLIFO_OK && (was_open || !text.only_begins());
  const bool may = transaction != 0 && !ended && (connection.may_hold_locks || did_something);
  const bool holds =
      may && (connection.holds_locks || thd_sql_command(thd) != SQLCOM_SELECT || text.locks_what_it_reads());
  set_locks(connection, may, holds);
  connection.has_only_read = connection.has_only_read && !held && !holds && only_reads(connection, thd, text);
}

// A statement has ended, or one within it, whether or not it asked. A name that it locked stays locked also if it failed after
// that; what else it locks it does last. But one that was kept out did nothing: else it could come in past the limit when it is
// tried again.
void saw_session_locks(Connection &connection, const Text &text, bool failed) {
  if (failed && connection.kept_out != FLIFO_OK) return;
  const SessionLocks locks = text.session_locks();
  const int freed = failed ? 0 : locks.freed, taken = failed ? locks.taken & SessionLocks::NAMES : locks.taken;
  connection.session_locks = static_cast<unsigned char>((connection.session_locks & ~freed) | taken);
}

// Where nothing but the client's own statement may be under way: within a routine the server says what its definer may.
void ask_privilege(Connection &connection, MYSQL_THD thd) {
  if (!connection.is_client || connection.privilege_known) return;
  connection.is_admin = server::is_connection_admin(thd);
  connection.privilege_known = true;
}

bool may_pass(const Connection &connection, MYSQL_THD thd) {
  return connection.is_admin || settings::bypasses(thd);
}

// Has the server end the statement that was refused, or killed in the queue.
void end_it(MYSQL_THD thd, flifo_status_t why) {
  flifo_config_t config;
  flifo_admission_config(settings::admission(), &config, sizeof config);
  char text[200];
  if (why == FLIFO_QUEUE_FULL) {
    snprintf(text, sizeof text, "flifo: the queue for admission is full (flifo_max_queue = %u); try again later",
             config.queue_limit);
    server::refuse(thd, ER_TOO_MANY_CONCURRENT_TRXS, text);
  } else if (why == FLIFO_TIMEOUT) {
    snprintf(text, sizeof text,
             "flifo: the statement was not admitted within %llu ms (flifo_queue_timeout); try again later",
             static_cast<unsigned long long>(config.queue_timeout_ns / 1000000));
    server::refuse(thd, ER_STATEMENT_TIMEOUT, text);
  } else if (server::can_refuse()) {
    server::kill_query(thd);
  }
}

void refuse(Connection &connection, MYSQL_THD thd, flifo_status_t why) {
  (why == FLIFO_QUEUE_FULL ? refused_queue_full : refused_timeout).fetch_add(1, std::memory_order_relaxed);
  connection.kept_out = why;
  end_it(thd, why);
}

bool is_refusal(flifo_status_t status) { return status == FLIFO_TIMEOUT || status == FLIFO_QUEUE_FULL; }

// Queues. If it was killed meanwhile, the server sees that and ends the statement itself; but see `stay_out`.
flifo_status_t queue(Connection &connection, MYSQL_THD thd) {
  const flifo_status_t status = queueing::enter(connection, thd);
  if (status == FLIFO_CANCELLED) connection.kept_out = status;
  return status;
}

// For one that may hold locks, and finds no place. Others may wait for them, so it is not refused: it comes in past the limit.
void ask_as_holder(Connection &connection, MYSQL_THD thd) {
  if (!rowlocks::holder_must_enter()) {
    const flifo_status_t status = queue(connection, thd);
    rowlocks::holder_came_out();
    if (!is_refusal(status)) return;
  }
  flifo_enter_past_limit(connection.session);
}

// For one that finds no place, and of which it is not known whether it holds locks: as if it did.
void ask_first(Connection &connection, MYSQL_THD thd) {
  set_class(connection, FLIFO_CLASS_FIRST);
  ask_as_holder(connection, thd);
  set_class(connection, connection.holds_locks ? FLIFO_CLASS_FIRST : FLIFO_CLASS_NORMAL);
}

// For a statement within one, which takes a ticket. It is never refused: the whole has been admitted. Out of tickets it asks as
// a holder of locks, for what the whole has locked so far is not known.
void ask_within(Connection &connection, MYSQL_THD thd) {
  // The end of each commit brings a place back past the limit, with a ticket: a procedure would never queue.
  if (connection.asks_again) flifo_exit(connection.session);
  connection.asks_again = false;
  if (flifo_try_enter(connection.session) != FLIFO_NO_PLACE) return;
  ask_first(connection, thd);
  lending::stays_anew(connection);
}

// Whether this statement, or one that follows it in the packet and runs only after it, frees names. A packet is looked at once: it
// may be long, and have very many statements that find no place.
bool comes_to_free_names(Connection &connection, const Text &rest) {
  if (rest.begin() == nullptr) return false;
  if (connection.names_freed_at == nullptr) {
    const Text packet(connection.packet, static_cast<unsigned>(connection.packet_end - connection.packet));
    const char *last = packet.frees_names_last();
    connection.names_freed_at = last == nullptr ? connection.packet_end : last;
  }
  return connection.names_freed_at != connection.packet_end && rest.begin() <= connection.names_freed_at;
}

// For one that finds no place: reads come in past the limit while nobody queues, and not too many are inside. With so few it is
// those who change rows that the limit serves, and reads only lose by it. With them come those for whose locks others may wait: else
// they would wait until all of these reads have left.
bool enters_with_reads(Connection &connection, MYSQL_THD thd, const Text &rest) {
  const unsigned reads = settings::read_concurrency();
  return reads != 0 && queueing::length() == 0 && (connection.holds_locks || only_reads(connection, thd, rest)) &&
         flifo_try_enter_below(connection.session, reads) == FLIFO_OK;
}

// `rest` begins with the statement, and goes on to the packet's end.
void enter(Connection &connection, MYSQL_THD thd, const Text &rest) {
  if (flifo_try_enter(connection.session) != FLIFO_NO_PLACE || enters_with_reads(connection, thd, rest))
    return;
  // Connecting asks nobody; the server would close the connection if this were refused.
  if (connection.connects) {
    flifo_enter_past_limit(connection.session);
    return;
  }
  if (connection.may_hold_locks) return ask_as_holder(connection, thd);
  if (rest.locks_but_names().freed != 0 || rest.ends_prepared() || comes_to_free_names(connection, rest))
    return ask_first(connection, thd);
  const flifo_status_t status = queue(connection, thd);
  if (is_refusal(status)) refuse(connection, thd, status);
}

// The statement that is under way is over.
void leave(Connection &connection) {
  const bool passed = connection.passes;
  connection.in_statement = connection.passes = false;
  if (passed) return;
  waits::statement_is_over(connection);
  rowlocks::wait_ends(connection);
  lending::goes_out(connection);
  // Not inside if it was refused, or the limit was lifted meanwhile.
  flifo_exit(connection.session);
}

// A statement begins whose id is this, or not known (0).
void begin_any(Connection &connection, unsigned long long query_id, bool passes) {
  rowlocks::owner_is_back(connection);
  connection.in_statement = true;
  connection.passes = passes;
  connection.query_id = query_id;
  connection.executes = connection.within = connection.asks_again = false;
  connection.failed_text = nullptr;
  connection.kept_out = FLIFO_OK;
  connection.waits = 0;
  connection.wait.store(Wait::None, std::memory_order_relaxed);
}

void begin(Connection &connection, MYSQL_THD thd, unsigned long long query_id, const Text &rest) {
  lending::serves(connection);
  begin_any(connection, query_id, false);
  enter(connection, thd, rest);
  lending::comes_in(connection);
  if (rest.commits_in_two_phases() && flifo_is_inside(connection.session) == FLIFO_OK) waits::commit_begins(connection, thd);
}

// One that asks nobody. What it runs asks nobody either, whatever is set meanwhile: it may have locked what those who have places
// wait for.
void pass(Connection &connection, unsigned long long query_id) {
  begin_any(connection, query_id, true);
  // What it changes and locks is not seen.
  connection.has_only_read = false;
  connection.may_hold_locks = true;
}

// A statement within one begins or has ended. What touches no table, as SET does, the server finishes although it was killed, and
// forgets the kill: the next one of the procedure would run, in nobody's place.
void stay_out(const Connection &connection, MYSQL_THD thd) {
  if (connection.kept_out != FLIFO_OK && thd_kill_level(thd) == THD_IS_NOT_KILLED) end_it(thd, connection.kept_out);
}

// A statement within one: of a procedure, a trigger, EXECUTE.
void begin_within(Connection &connection, MYSQL_THD thd, const mysql_event_general &event) {
  connection.within = true;
  // Announced as one by the protocol it is what a client's EXECUTE executes, and has the same id.
  if (is_command(event, "Execute")) {
    connection.query_id = event.query_id;
    connection.executes = true;
    connection.failed_text = nullptr;
  }
  if (connection.passes) return;
  if (flifo_is_inside(connection.session) == FLIFO_OK) return ask_within(connection, thd);
  stay_out(connection, thd);
}

// Whether a statement is under way of which no begin was seen: it may be of a routine that was running when the plugin came. Only
// the command's RESULT shows its end.
bool is_in_the_middle(const Connection &connection) {
  return connection.in_statement && connection.passes && connection.packet == nullptr;
}

void on_log(MYSQL_THD thd, const mysql_event_general &event) {
  if (!runs_a_statement(event)) return;
  Connection *connection = connections::get(thd);
  const bool is_on = settings::is_on();
  if (connection == nullptr) {
    if (is_on) bypassed.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (connection->in_statement && !is_in_the_middle(*connection)) return begin_within(*connection, thd, event);
  const bool is_known = connection->is_client && connection->privilege_known;
  connection->packet = is_known ? event.general_query : nullptr;
  connection->packet_end = is_known ? event.general_query + event.general_query_length : nullptr;
  connection->names_freed_at = nullptr;
  connection->has_only_read = true;
  connection->yields.begins();
  connection->connects = connection->connects && server::runs_init_connect(thd);
  if (!is_on || !is_known || may_pass(*connection, thd)) {
    if (is_on) bypassed.fetch_add(1, std::memory_order_relaxed);
    return pass(*connection, is_known ? event.query_id : 0);
  }
  if (connection->may_hold_locks && connection->session_locks == 0 && what_keeps_locks(thd) == 0)
    set_locks(*connection, false, false);
  begin(*connection, thd, event.query_id, Text(event.general_query, event.general_query_length));
}

// A command has ended well: appliers and events have none. In a pool of threads that shows a client's that was there before
// the plugin, for the pool waits for the next one without a thread (`waits`). The SQL thread runs `init_slave` as one, and may
// pass.
void saw_command(Connection &connection, MYSQL_THD thd) {
  if (!connection.is_client && server::is_of_main_port(thd)) connection.is_client = true;
}

// The last event of a statement: RESULT, or its own STATUS.
void on_end(MYSQL_THD thd, const mysql_event_general &event) {
  Connection *connection = connections::find(thd);
  if (connection == nullptr) return;
  const bool is_status = event.event_subclass == MYSQL_AUDIT_GENERAL_STATUS;
  if (is_command(event, "Reset connection")) {
    connection->session_locks = 0;
    connection->idle_since = {};
    tell_in_transaction(*connection, false);
  }
  if (!is_status) saw_command(*connection, thd);
  if (!connection->in_statement) {
    if (!is_status) ask_privilege(*connection, thd);
    return;
  }
  const Text text(event.general_query, event.general_query_length);
  // Whose ever statement it was: with another role the account may pass, or may no more.
  if (text.sets_role()) connection->privilege_known = false;
  saw_session_locks(*connection, text, event.general_error_code != 0);
  if (is_status && !is_own(*connection, event)) return stay_out(*connection, thd);
  // What EXECUTE executed has ended, and EXECUTE will; if it failed, it may have no other event.
  if (is_status && connection->executes && event.general_error_code == 0 && is_command(event, "Query") &&
      !is_of_packet(*connection, event)) {
    connection->executes = false;
    return;
  }
  ask_privilege(*connection, thd);
  const bool passes = connection->passes;
  if (!passes) saw_end_of(*connection, thd, event, text);
  leave(*connection);
  // Only the first of a packet announces itself.
  if (!is_status || !another_follows(*connection, thd, event)) {
    if (!passes && connection->in_transaction && connection->holds_locks) rowlocks::owner_idles(*connection);
    return;
  }
  if (passes)
    pass(*connection, 0);
  else
    begin(*connection, thd, 0, rest_of_packet(*connection, event));
}

// Whether an error, which is the statement's own, ends an EXECUTE before it executes anything, as of an unknown name or of too
// few values: no further event tells. What it executed has a number of its own. Where the server's numbers are others, what was
// wrong stands in place of the command for the two errors that are frequent, and names EXECUTE in every language. An EXECUTE is
// not told by its text: it may stand in a comment that is run, or behind SET STATEMENT.
bool ends_execute(const Connection &connection, MYSQL_THD thd, const mysql_event_general &event) {
  if (!connection.within && thd_sql_command(thd) == SQLCOM_EXECUTE) return true;
  if (event.general_error_code != ER_UNKNOWN_STMT_HANDLER && event.general_error_code != ER_WRONG_ARGUMENTS)
    return false;
  return std::string_view(event.general_command, event.general_command_length).find("EXECUTE") !=
         std::string_view::npos;
}

void on_error(MYSQL_THD thd, const mysql_event_general &event) {
  Connection *connection = connections::find(thd);
  if (connection == nullptr || !connection->in_statement || !is_own(*connection, event)) return;
  // Those that handlers catch come again and again, a row each, with the whole's text: it is looked at once.
  if (connection->failed_text != event.general_query) {
    connection->failed_text = event.general_query;
    saw_session_locks(*connection, Text(event.general_query, event.general_query_length), true);
  }
  if (ends_execute(*connection, thd, event)) leave_early(*connection);
}

void on_general(MYSQL_THD thd, const mysql_event_general &event) {
  switch (event.event_subclass) {
    case MYSQL_AUDIT_GENERAL_LOG:
      return on_log(thd, event);
    case MYSQL_AUDIT_GENERAL_ERROR:
      return on_error(thd, event);
    case MYSQL_AUDIT_GENERAL_RESULT:
    case MYSQL_AUDIT_GENERAL_STATUS:
      return on_end(thd, event);
    default:
      return;
  }
}

void on_connection(MYSQL_THD thd, const mysql_event_connection &event) {
  switch (event.event_subclass) {
    case MYSQL_AUDIT_CONNECTION_CONNECT:
      if (event.status == 0 && server::is_of_main_port(thd))
        if (Connection *connection = connections::get(thd)) {
          if (connection->in_statement) leave(*connection);
          connection->is_client = connection->connects = true;
          ask_privilege(*connection, thd);
          connection->may_hold_locks = false;
        }
      return;
    case MYSQL_AUDIT_CONNECTION_CHANGE_USER:
      if (Connection *connection = connections::find(thd)) {
        leave(*connection);
        // The server has let go of all that was locked before it looked at the password.
        connection->session_locks = 0;
        connection->idle_since = {};
        tell_in_transaction(*connection, false);
        // Else the account is the one that it was: the connection goes on with it.
        if (event.status != 0) return;
        connection->privilege_known = connection->is_admin = false;
        ask_privilege(*connection, thd);
      }
      return;
    case MYSQL_AUDIT_CONNECTION_DISCONNECT:
      return connections::end(thd);
    default:
      return;
  }
}

}  // namespace

void forget_counts() {
  for (auto *count : {&bypassed, &refused_timeout, &refused_queue_full}) count->store(0, std::memory_order_relaxed);
}

void leave_early(Connection &connection) {
  connection.has_only_read = false;
  connection.may_hold_locks = true;
  leave(connection);
}

void on_event(MYSQL_THD thd, unsigned event_class, const void *event) {
  // Errors outside of any connection have none.
  if (thd == nullptr) return;
  if (event_class == MYSQL_AUDIT_GENERAL_CLASS)
    on_general(thd, *static_cast<const mysql_event_general *>(event));
  else if (event_class == MYSQL_AUDIT_CONNECTION_CLASS)
    on_connection(thd, *static_cast<const mysql_event_connection *>(event));
}

void on_work_done(MYSQL_THD thd) {
  Connection *connection = connections::find(thd);
  if (connection == nullptr || !connection->in_statement || connection->passes || connection->waits != 0) return;
  lending::goes_out(*connection);
  const long long keeps = what_keeps_locks(thd);
  saw_transaction(*connection, thd, keeps);
  // Who holds locks goes on with its turn, others make room for those who do. The rest of what it locked its last event tells.
  if (keeps == 0 && connection->session_locks == 0)
    set_class(*connection, FLIFO_CLASS_NORMAL);
  else if (thd_sql_command(thd) != SQLCOM_SELECT && connection->kept_out == FLIFO_OK)
    set_class(*connection, FLIFO_CLASS_FIRST);
  flifo_exit(connection->session);
}

bool commits_changes(const Connection &connection, MYSQL_THD thd) {
  const int command = thd_sql_command(thd);
  if ((what_keeps_locks(thd) & ~OPTION_TABLE_LOCK) == 0) return command != SQLCOM_SELECT;
  // What ran within the statement, a procedure, is not known.
  return command == SQLCOM_COMMIT && (connection.holds_locks || connection.within);
}

void has_committed(Connection &connection, MYSQL_THD thd) {
  connection.asks_again =
      connection.within && connection.session_locks == 0 && thd_test_options(thd, OPTION_TABLE_LOCK) == 0;
}

void on_release(MYSQL_THD thd) {
  Connection *connection = connections::find(thd);
  if (connection != nullptr && connection->in_statement) leave_early(*connection);
}

}  // namespace flifo::statement
