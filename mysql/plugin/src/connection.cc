// SPDX-License-Identifier: GPL-2.0-only

#include "connection.h"

#include "server.h"

#include <sched.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <new>
#include <unordered_map>

namespace flifo::connections {
namespace {

struct Shard {
  std::mutex mutex;
  std::unordered_map<THD *, Connection *> map;
};
constexpr unsigned SHARDS = 64;

// Never freed, not even when the process exits: threads of the server may still end.
Shard *const shards = new Shard[SHARDS];
std::mutex all_mutex;
auto &all = *new std::deque<Connection>;
Connection *free_list;
std::atomic<bool> is_open{false};
flifo_admission_t admission;

// The connection that this thread served last.
thread_local Connection *served = nullptr;

Shard &shard_of(THD *thd) {
  // THDs are large and aligned, so their low bits are equal.
  const auto address = reinterpret_cast<uintptr_t>(thd);
  return shards[(address >> 12 ^ address >> 18) % SHARDS];
}

Connection *allocate() {
  std::lock_guard<std::mutex> guard(all_mutex);
  Connection *connection = free_list;
  if (connection != nullptr) {
    free_list = connection->next_free;
    return connection;
  }
  try {
    return &all.emplace_back();
  } catch (const std::bad_alloc &) {
    return nullptr;
  }
}

void give_back(Connection *connection) {
  std::lock_guard<std::mutex> guard(all_mutex);
  connection->next_free = free_list;
  free_list = connection;
}

// Ends a connection that is no longer in the map.
void end(Connection &connection) {
  connection.thd.store(nullptr, std::memory_order_release);
  // A wait callback may still run in another thread while the plugin is unloaded.
  while (flifo_session_free(connection.session) == FLIFO_IN_USE) sched_yield();
  flifo_canceller_free(connection.canceller);
  give_back(&connection);
}

Connection *make(THD *thd) {
  Connection *connection = allocate();
  if (connection == nullptr) return nullptr;
  // `end` accepts zero handles.
  connection->session = {};
  connection->canceller = {};
  if (flifo_session_new(admission, &connection->session) != FLIFO_OK ||
      flifo_canceller_new(connection->session, &connection->canceller) != FLIFO_OK) {
    end(*connection);
    return nullptr;
  }
  connection->phase.store(Phase::OUT, std::memory_order_relaxed);
  connection->thread_id = server::thread_id(thd);
  connection->is_administrator = connection->is_account_known = false;
  connection->depth = connection->waits = 0;
  connection->is_in_transaction = false;
  return connection;
}

}  // namespace

Connection *find(THD *thd) {
  // Relaxed: this thread wrote it, or took over the THD under a lock of the server.
  if (served != nullptr && served->thd.load(std::memory_order_relaxed) == thd) return served;
  Shard &shard = shard_of(thd);
  std::lock_guard<std::mutex> guard(shard.mutex);
  const auto found = shard.map.find(thd);
  return found == shard.map.end() ? nullptr : served = found->second;
}

Connection *get(THD *thd) {
  Connection *connection = find(thd);
  // A connection without an end event leaves its entry behind, and its THD's address may be reused.
  if (connection != nullptr && connection->thread_id != server::thread_id(thd)) {
    end(thd);
    connection = nullptr;
  }
  if (connection != nullptr || !is_open.load(std::memory_order_acquire)) return connection;
  Shard &shard = shard_of(thd);
  std::lock_guard<std::mutex> guard(shard.mutex);
  // Again, since `close` takes the lock after it has closed.
  if (!is_open.load(std::memory_order_acquire)) return nullptr;
  connection = make(thd);
  if (connection == nullptr) return nullptr;
  try {
    shard.map.emplace(thd, connection);
  } catch (const std::bad_alloc &) {
    end(*connection);
    return nullptr;
  }
  connection->thd.store(thd, std::memory_order_release);
  return served = connection;
}

void cancel(THD *thd) {
  Shard &shard = shard_of(thd);
  std::lock_guard<std::mutex> guard(shard.mutex);
  const auto found = shard.map.find(thd);
  if (found != shard.map.end()) flifo_cancel(found->second->canceller);
}

void end(THD *thd) {
  Shard &shard = shard_of(thd);
  Connection *connection;
  {
    std::lock_guard<std::mutex> guard(shard.mutex);
    const auto found = shard.map.find(thd);
    if (found == shard.map.end()) return;
    connection = found->second;
    shard.map.erase(found);
  }
  end(*connection);
}

void each(void (*visit)(Connection &)) {
  std::lock_guard<std::mutex> guard(all_mutex);
  for (Connection &connection : all) visit(connection);
}

void open(flifo_admission_t scheduler) {
  admission = scheduler;
  is_open.store(true, std::memory_order_release);
}

void close() {
  is_open.store(false, std::memory_order_release);
  for (unsigned number = 0; number < SHARDS; number++) {
    Shard &shard = shards[number];
    std::lock_guard<std::mutex> guard(shard.mutex);
    for (const auto &[thd, connection] : shard.map) end(*connection);
    shard.map.clear();
  }
}

}  // namespace flifo::connections
