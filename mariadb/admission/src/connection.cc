// SPDX-License-Identifier: GPL-2.0-only

#include "connection.h"

#include "lending.h"

#include <mysql/service_kill_statement.h>
#include <sched.h>

#include <mutex>
#include <new>
#include <unordered_map>

namespace flifo::connections {
namespace {

// Connections are made in chunks that stay for ever; whoever looks at all of them walks through these.
struct Chunk {
  static constexpr unsigned SIZE = 64;
  Connection connections[SIZE];
  Chunk *next = nullptr;
};

struct Shard {
  std::mutex mutex;
  std::unordered_map<MYSQL_THD, Connection *> map;
};
constexpr unsigned SHARDS = 64;

Shard shards[SHARDS];
std::mutex free_mutex;
Connection *free_list;
std::atomic<Chunk *> chunks{nullptr};
std::atomic<bool> is_open{false};
flifo_admission_t admission;

// The connection that this thread served last.
thread_local Connection *served = nullptr;

Shard &shard_of(MYSQL_THD thd) {
  // THDs are large and aligned: their low bits say nothing.
  const auto address = reinterpret_cast<uintptr_t>(thd);
  return shards[(address >> 12 ^ address >> 18) % SHARDS];
}

Connection *allocate() {
  std::lock_guard<std::mutex> guard(free_mutex);
  if (free_list == nullptr) {
    auto *chunk = new (std::nothrow) Chunk;
    if (chunk == nullptr) return nullptr;
    for (Connection &connection : chunk->connections) {
      connection.next_free = free_list;
      free_list = &connection;
    }
    chunk->next = chunks.load(std::memory_order_relaxed);
    chunks.store(chunk, std::memory_order_release);
  }
  Connection *connection = free_list;
  free_list = connection->next_free;
  return connection;
}

// Calls it with each connection that there ever was, those that are over, too.
template <class Do>
void each(Do &&what) {
  for (Chunk *chunk = chunks.load(std::memory_order_acquire); chunk != nullptr; chunk = chunk->next)
    for (Connection &connection : chunk->connections) what(connection);
}

void give_back(Connection *connection) {
  std::lock_guard<std::mutex> guard(free_mutex);
  connection->next_free = free_list;
  free_list = connection;
}

bool begin_session(Connection &connection) {
  if (flifo_session_new(admission, &connection.session) != FLIFO_OK) return false;
  flifo_set_lendable(connection.session, 1);
  if (flifo_canceller_new(connection.session, &connection.canceller) == FLIFO_OK) {
    connection.lender.store(connection.canceller.id, std::memory_order_release);
    return true;
  }
  flifo_session_free(connection.session);
  return false;
}

void end_session(Connection &connection) {
  lending::goes_out(connection);
  // The server's thread is out of `flifo_enter`, or it could not be here; but a wait callback may still be at
  // work when the plugin is unloaded.
  while (flifo_session_free(connection.session) == FLIFO_IN_USE) sched_yield();
  flifo_canceller_free(connection.canceller);
}

void reset(Connection &connection, MYSQL_THD thd) {
  connection.thread_id = thd_get_thread_id(thd);
  connection.is_client = connection.privilege_known = connection.is_admin = false;
  connection.connects = connection.in_statement = connection.passes = false;
  connection.executes = connection.within = false;
  connection.kept_out = FLIFO_OK;
  connection.query_id = 0;
  connection.packet = connection.packet_end = connection.names_freed_at = connection.failed_text = nullptr;
  connection.in_transaction = connection.holds_locks = connection.has_only_read = false;
  connection.session_class = FLIFO_CLASS_NORMAL;
  connection.told_in_transaction = false;
  connection.session_locks = 0;
  // What it did before is not known.
  connection.may_hold_locks = true;
  connection.waits_for_row.store(false, std::memory_order_relaxed);
  connection.gave_up_place = false;
  connection.idle_since = {};
  connection.waits = 0;
  connection.yields.begin_anew();
  connection.wait.store(Wait::None, std::memory_order_relaxed);
}

// Threads of the server that were never seen to end may leave a connection behind, and their THD's address may
// be another's now.
bool is_stale(const Connection &connection, MYSQL_THD thd) {
  return connection.thread_id != thd_get_thread_id(thd);
}

Connection *make(MYSQL_THD thd) {
  Connection *connection = allocate();
  if (connection == nullptr) return nullptr;
  if (!begin_session(*connection)) {
    give_back(connection);
    return nullptr;
  }
  reset(*connection, thd);
  return connection;
}

}  // namespace

Connection *find(MYSQL_THD thd) {
  // Relaxed: if it is ours, this thread wrote it, or handed itself the THD with a lock of the server's.
  if (served != nullptr && served->thd.load(std::memory_order_relaxed) == thd) return served;
  Shard &shard = shard_of(thd);
  std::lock_guard<std::mutex> guard(shard.mutex);
  const auto found = shard.map.find(thd);
  return found == shard.map.end() ? nullptr : served = found->second;
}

Connection *get(MYSQL_THD thd) {
  Connection *connection = find(thd);
  if (connection != nullptr && is_stale(*connection, thd)) {
    end(thd);
    connection = nullptr;
  }
  if (connection != nullptr || !is_open.load(std::memory_order_acquire)) return connection;
  Shard &shard = shard_of(thd);
  std::lock_guard<std::mutex> guard(shard.mutex);
  // Again: `close` takes the lock after it has closed.
  if (!is_open.load(std::memory_order_acquire)) return nullptr;
  connection = make(thd);
  if (connection == nullptr) return nullptr;
  try {
    shard.map.emplace(thd, connection);
  } catch (const std::bad_alloc &) {
    end_session(*connection);
    give_back(connection);
    return nullptr;
  }
  connection->thd.store(thd, std::memory_order_release);
  return served = connection;
}

void end(MYSQL_THD thd) {
  Shard &shard = shard_of(thd);
  Connection *connection;
  {
    std::lock_guard<std::mutex> guard(shard.mutex);
    const auto found = shard.map.find(thd);
    if (found == shard.map.end()) return;
    connection = found->second;
    shard.map.erase(found);
    connection->thd.store(nullptr, std::memory_order_release);
  }
  end_session(*connection);
  give_back(connection);
}

void open(flifo_admission_t of) {
  // Those of the plugin that was loaded before.
  each([](Connection &connection) { connection.yields.forget_counts(); });
  admission = of;
  is_open.store(true, std::memory_order_release);
}

void close() {
  is_open.store(false, std::memory_order_release);
  for (Shard &shard : shards) {
    std::lock_guard<std::mutex> guard(shard.mutex);
    for (const auto &[thd, connection] : shard.map) {
      connection->thd.store(nullptr, std::memory_order_release);
      end_session(*connection);
      give_back(connection);
    }
    shard.map.clear();
  }
}

void cancel_killed() {
  each([](Connection &connection) {
    // Read first: a failed exchange, too, takes the cache line from the processor of whoever does not queue.
    if (connection.queueing.load(std::memory_order_relaxed) != Queueing::Yes) return;
    Queueing queueing = Queueing::Yes;
    if (!connection.queueing.compare_exchange_strong(queueing, Queueing::LookedAt, std::memory_order_acquire)) return;
    if (thd_kill_level(connection.thd.load(std::memory_order_relaxed)) != THD_IS_NOT_KILLED)
      flifo_cancel(connection.canceller);
    connection.queueing.store(Queueing::Yes, std::memory_order_release);
  });
}

YieldCounts yields() {
  YieldCounts all;
  each([&all](const Connection &connection) { connection.yields.add_to(all); });
  return all;
}

}  // namespace flifo::connections
