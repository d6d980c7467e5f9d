// SPDX-License-Identifier: GPL-2.0-only

#include "waits.h"

#include "lending.h"
#include "processors.h"
#include "queueing.h"
#include "rowlocks.h"
#include "settings.h"
#include "statement.h"

#include <mysql/service_thd_wait.h>

#include <sched.h>

#include <atomic>
#include <utility>

namespace flifo::waits {
namespace {

flifo_wait_kind_t kind_of(int server_kind) {
  switch (server_kind) {
    case THD_WAIT_ROW_LOCK:
      return FLIFO_WAIT_ROW_LOCK;
    case THD_WAIT_GLOBAL_LOCK:
    case THD_WAIT_META_DATA_LOCK:
    case THD_WAIT_TABLE_LOCK:
    case THD_WAIT_USER_LOCK:
      return FLIFO_WAIT_TABLE_LOCK;
    case THD_WAIT_DISKIO:
      return FLIFO_WAIT_DISK;
    case THD_WAIT_NET:
      return FLIFO_WAIT_NETWORK;
    case THD_WAIT_GROUP_COMMIT:
    case THD_WAIT_SYNC:
      return FLIFO_WAIT_LOG_SYNC;
    case THD_WAIT_SLEEP:
      return FLIFO_WAIT_SLEEP;
    default:
      return FLIFO_WAIT_USER;
  }
}

// The network waits in which a connection is idle show that it is a client's: no thread of the server's own reads
// commands. Within a statement they may be another server's replies, or the client's next lines.
void saw_idle(Connection &connection, MYSQL_THD thd) {
  server::saw_main_port(thd);
  // Whatever ended without an event that says so. That it raised an error shows nothing: a handler may have caught that.
  if (connection.in_statement && server::is_idle(thd)) statement::leave_early(connection);
  if (!connection.in_statement) connection.is_client = true;
}

// While so many queue nobody yields. With four places and 240 in the queue more was done with yields, as with none; with a thousand less of
// what reads many rows, and no more of the rest. Where between them it turns was not measured.
constexpr unsigned LONG_QUEUE = 400;

// Nor while so many do, for each processor. A thousand connections that begin together queue nowhere yet: if all of them yield, all of them
// are the kernel's to run, who runs one after the other, and none ever finds all places taken. Then nobody queues for admission any more.
constexpr unsigned YIELDING_PER_PROCESSOR = 16;

// Threads between the begin and the end of a yield. A hint: who reads an old count yields once more, or once less, than it should.
alignas(128) std::atomic<unsigned> yielding{0};

// When this thread's yield was over, while it sleeps after that. Not the connection's: it may be another's after a yield, if the plugin
// was unloaded meanwhile, and loaded again.
thread_local Yields::Clock::time_point yielded{};

// It is about to sleep until its client's next statement. Nothing of the connection may be touched after this.
void yields_first(Connection &connection) {
  if (!connection.has_only_read || !settings::yields()) return;
  connection.has_only_read = false;
  if (queueing::length() >= LONG_QUEUE) return;
  if (yielding.load(std::memory_order_relaxed) >= YIELDING_PER_PROCESSOR * processors()) return;
  if (!connection.yields.decides_to_yield()) return;
  yielding.fetch_add(1, std::memory_order_relaxed);
  sched_yield();
  yielding.fetch_sub(1, std::memory_order_relaxed);
  yielded = Yields::Clock::now();
}

void begin_wait(Connection &connection, flifo_wait_kind_t kind) {
  if (connection.waits < Connection::WAITS_MAX)
    connection.wait_kinds[connection.waits] = static_cast<unsigned char>(kind);
  connection.waits++;
  if (connection.waits > Connection::WAITS_MAX) return;
  flifo_wait_begin(connection.session, kind);
  const bool keeps = flifo_is_inside(connection.session) == FLIFO_OK;
  connection.wait.store(keeps ? Wait::Keeps : Wait::GaveUp, std::memory_order_relaxed);
  if (kind != FLIFO_WAIT_ROW_LOCK || !keeps) return;
  rowlocks::wait_begins(connection);
  if (connection.gave_up_place) connection.wait.store(Wait::GaveUp, std::memory_order_relaxed);
}

// The innermost one is over.
void end_wait(Connection &connection) {
  connection.waits--;
  if (connection.waits == 0) connection.wait.store(Wait::None, std::memory_order_relaxed);
  if (connection.waits >= Connection::WAITS_MAX) return;
  const auto kind = static_cast<flifo_wait_kind_t>(connection.wait_kinds[connection.waits]);
  // Never through the queue: it may hold a latch, a mutex, or the row that others wait for. So may one that waits for
  // its client between two parts of a result.
  flifo_wait_end(connection.session, kind);
  if (kind == FLIFO_WAIT_ROW_LOCK) rowlocks::wait_ends(connection);
  if (connection.waits == 0) lending::ends_wait(connection);
}

// The connection that this thread commits for, if that is taken for a wait, and how many commits are within that one: a cluster's
// has some. A pool's threads go on with another connection only between statements.
thread_local Connection *commits = nullptr;
thread_local unsigned commits_within = 0;

void begin_commit(Connection &connection) {
  begin_wait(connection, FLIFO_WAIT_LOG_SYNC);
  // It keeps its place, and what waits there are within are told, or seen, one by one.
  if (flifo_is_inside(connection.session) == FLIFO_OK) return end_wait(connection);
  commits = &connection;
  commits_within = 0;
}

}  // namespace

void begin(MYSQL_THD thd, int server_kind) {
  server::wait_begin_before(thd, server_kind);
  const bool is_network = server_kind == THD_WAIT_NET;
  Connection *connection = is_network ? connections::get(thd) : connections::find(thd);
  if (connection == nullptr) return;
  if (is_network) saw_idle(*connection, thd);
  if (!connection->in_statement && is_network) return yields_first(*connection);
  if (!connection->in_statement || connection->passes) return;
  begin_wait(*connection, kind_of(server_kind));
}

void end(MYSQL_THD thd) {
  server::wait_end_before(thd);
  Connection *connection = connections::find(thd);
  const Yields::Clock::time_point since = std::exchange(yielded, {});
  if (connection == nullptr) return;
  if (since != Yields::Clock::time_point{}) connection->yields.has_slept(since);
  // A wait may have begun before the plugin came, or before the statement did.
  if (connection->waits != 0) end_wait(*connection);
}

void commit_begins(MYSQL_THD thd) {
  if (commits != nullptr && commits->thd.load(std::memory_order_relaxed) == thd) {
    commits_within++;
    return;
  }
  if (!server::logs_changes(thd)) return;
  Connection *connection = connections::find(thd);
  if (connection == nullptr || !connection->in_statement || connection->passes || connection->waits != 0) return;
  if (statement::commits_changes(*connection, thd)) begin_commit(*connection);
}

void commit_begins(Connection &connection, MYSQL_THD thd) {
  if (server::logs_changes(thd)) begin_commit(connection);
}

void statement_is_over(Connection &connection) {
  if (commits != &connection) return;
  commits = nullptr;
  commits_within = 0;
  // First: it needs no place any more.
  flifo_exit(connection.session);
  while (connection.waits != 0) end_wait(connection);
}

void commit_is_over(MYSQL_THD thd) {
  if (commits == nullptr) return;
  if (commits_within != 0) {
    commits_within--;
    return;
  }
  Connection &connection = *commits;
  commits = nullptr;
  // And whatever began within it.
  while (connection.waits != 0) end_wait(connection);
  statement::has_committed(connection, thd);
}

}  // namespace flifo::waits
