// SPDX-License-Identifier: GPL-2.0-only

#include "queueing.h"

#include "connection.h"
#include "settings.h"

#include <sched.h>

#include <cstdio>

namespace flifo::queueing {
namespace {

// Threads in `enter`.
std::atomic<unsigned> queued{0};

// While this lives, the watcher may look at the server's thread.
class Queued {
 public:
  Queued(Connection &connection, server::Thread *thread) : connection(connection), thread(thread) {
    flifo_forget_cancel(connection.session);
    connection.queue.phase.store(Phase::QUEUED, std::memory_order_release);
    queued.fetch_add(1, std::memory_order_relaxed);
    server::begin_queueing(thread);
  }

  ~Queued() {
    server::end_queueing(thread);
    queued.fetch_sub(1, std::memory_order_relaxed);
    Phase phase = Phase::QUEUED;
    // The watcher inspects for a few instructions.
    while (!connection.queue.phase.compare_exchange_weak(phase, Phase::OUT, std::memory_order_acquire)) {
      phase = Phase::QUEUED;
      sched_yield();
    }
  }

 private:
  Connection &connection;
  server::Thread *thread;
};

void cancel_if_killed(Connection &connection) {
  std::atomic<Phase> &phase = connection.queue.phase;
  // Read first, since a failed exchange takes the cache line from another CPU, too.
  if (phase.load(std::memory_order_relaxed) != Phase::QUEUED) return;
  Phase expected = Phase::QUEUED;
  if (!phase.compare_exchange_strong(expected, Phase::INSPECTED, std::memory_order_acquire)) return;
  if (server::is_killed(connection.thread.load(std::memory_order_relaxed)))
    flifo_cancel(connection.canceller);
  phase.store(Phase::QUEUED, std::memory_order_release);
}

}  // namespace

flifo_status_t enter(Connection &connection, server::Thread *thread) {
  const Queued queued_now(connection, thread);
  return flifo_enter(connection.session);
}

bool is_refusal(flifo_status_t status) { return status == FLIFO_TIMEOUT || status == FLIFO_QUEUE_FULL; }

void fail(server::Thread *thread, flifo_status_t why) {
  if (!server::can_refuse()) return;
  if (why == FLIFO_CANCELLED) return server::refuse(thread, nullptr);
  flifo_config_t config;
  flifo_admission_config(settings::admission(), &config, sizeof config);
  char text[200];
  if (why == FLIFO_QUEUE_FULL)
    snprintf(text, sizeof text, "flifo: the queue for admission is full (flifo_max_queue = %u); nothing was executed, try again",
             config.queue_limit);
  else
    snprintf(text, sizeof text, "flifo: not admitted within %llu ms (flifo_queue_timeout); nothing was executed, try again",
             static_cast<unsigned long long>(config.queue_timeout_ns / 1000000));
  server::refuse(thread, text);
}

// Relaxed: a statement that has just begun to queue is seen the next time.
void cancel_killed() {
  if (queued.load(std::memory_order_relaxed) != 0) connections::each(cancel_if_killed);
}

}  // namespace flifo::queueing
