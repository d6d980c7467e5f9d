// SPDX-License-Identifier: GPL-2.0-only

#include "connection.h"

#include "dormancy.h"

#include <sched.h>

#include <array>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <unordered_map>

namespace flifo::connections {
namespace {

struct Shard {
  std::mutex mutex;
  std::unordered_map<server::Thread *, Connection *> map;
};
constexpr unsigned SHARDS = 64;

// Never freed, not even when the process exits: threads of the server may still end.
auto &shards = *new std::array<Shard, SHARDS>;
// All connections there ever were, and a list of the free ones.
std::mutex all_mutex;
auto &all = *new std::deque<Connection>;
Connection *free_list;
std::atomic<bool> is_open{false};
flifo_admission_t admission;

// The connection that this thread served last.
thread_local Connection *served = nullptr;

Shard &shard_of(server::Thread *thread) {
  // A server's objects of connections are large and aligned, so their low bits are equal.
  const auto address = reinterpret_cast<uintptr_t>(thread);
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
  connection.thread.store(nullptr, std::memory_order_release);
  // The server's thread has left `flifo_enter`, but a wait callback may still run when the plugin is unloaded.
  while (flifo_session_free(connection.session) == FLIFO_IN_USE) sched_yield();
  flifo_canceller_free(connection.canceller);
  give_back(&connection);
}

Connection *make(server::Thread *thread) {
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
  connection->thread_id = server::id(thread);
  connection->dormant_period = dormancy::period();
  connection->account = {};
  connection->statement = {};
  connection->packet = {};
  connection->holdings.begin(connection->session);
  connection->waits = {};
  connection->row_lock = {};
  memset(connection->of_server, 0, sizeof connection->of_server);
  return connection;
}

// A server thread without an end event leaves its connection behind; the thread's address may be reused.
bool is_stale(const Connection &connection, server::Thread *thread) {
  return connection.thread_id != server::id(thread);
}

}  // namespace

Connection *find(server::Thread *thread) {
  // Relaxed: this thread wrote it, or took over the connection under a lock of the server.
  if (served != nullptr && served->thread.load(std::memory_order_relaxed) == thread) return served;
  Shard &shard = shard_of(thread);
  std::lock_guard<std::mutex> guard(shard.mutex);
  const auto found = shard.map.find(thread);
  return found == shard.map.end() ? nullptr : served = found->second;
}

Connection *get(server::Thread *thread) {
  Connection *connection = find(thread);
  if (connection != nullptr && is_stale(*connection, thread)) {
    end(thread);
    connection = nullptr;
  }
  if (connection != nullptr || !is_open.load(std::memory_order_acquire)) return connection;
  Shard &shard = shard_of(thread);
  std::lock_guard<std::mutex> guard(shard.mutex);
  // Again, since `close` takes the lock after it has closed.
  if (!is_open.load(std::memory_order_acquire)) return nullptr;
  connection = make(thread);
  if (connection == nullptr) return nullptr;
  try {
    shard.map.emplace(thread, connection);
  } catch (const std::bad_alloc &) {
    end(*connection);
    return nullptr;
  }
  connection->thread.store(thread, std::memory_order_release);
  return served = connection;
}

void end(server::Thread *thread) {
  Shard &shard = shard_of(thread);
  Connection *connection;
  {
    std::lock_guard<std::mutex> guard(shard.mutex);
    const auto found = shard.map.find(thread);
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
  for (Shard &shard : shards) {
    std::lock_guard<std::mutex> guard(shard.mutex);
    for (const auto &[thread, connection] : shard.map) end(*connection);
    shard.map.clear();
  }
}

}  // namespace flifo::connections
