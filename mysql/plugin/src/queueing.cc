// SPDX-License-Identifier: GPL-2.0-only

#include "queueing.h"

#include "server.h"
#include "settings.h"
#include "waits.h"

#include <sched.h>

#include <cstdio>

namespace flifo::queueing {
namespace {

abi::Stage waiting{0, "Waiting for admission", 0, "The statement queues for a slot (flifo_thread_concurrency)."};

// Threads in `enter`.
std::atomic<unsigned> queued{0};

// While this lives, the watcher may read the THD.
class Shown {
 public:
  Shown(Connection &connection, THD *thd) : connection(connection), thd(thd) {
    flifo_forget_cancel(connection.session);
    server::enter_stage(thd, waiting, &before);
    // Otherwise a pool of threads lacks one worker, and clients cannot connect.
    waits::begin_behind(thd, abi::WAIT_USER_LOCK);
    connection.phase.store(Phase::QUEUED, std::memory_order_release);
    queued.fetch_add(1, std::memory_order_relaxed);
  }

  ~Shown() {
    queued.fetch_sub(1, std::memory_order_relaxed);
    Phase phase = Phase::QUEUED;
    // The watcher inspects for a few instructions.
    while (!connection.phase.compare_exchange_weak(phase, Phase::OUT, std::memory_order_acquire)) {
      phase = Phase::QUEUED;
      sched_yield();
    }
    waits::end_behind(thd);
    server::enter_stage(thd, before, nullptr);
  }

 private:
  Connection &connection;
  THD *thd;
  abi::Stage before{};
};

void cancel_if_killed(Connection &connection) {
  std::atomic<Phase> &phase = connection.phase;
  // Read first, since a failed exchange takes the cache line from another CPU, too.
  if (phase.load(std::memory_order_relaxed) != Phase::QUEUED) return;
  Phase expected = Phase::QUEUED;
  if (!phase.compare_exchange_strong(expected, Phase::INSPECTED, std::memory_order_acquire)) return;
  if (server::is_killed(connection.thd.load(std::memory_order_relaxed))) flifo_cancel(connection.canceller);
  phase.store(Phase::QUEUED, std::memory_order_release);
}

}  // namespace

void open() { server::register_stage(waiting); }

flifo_status_t enter(Connection &connection, THD *thd) {
  const Shown shown(connection, thd);
  return flifo_enter(connection.session);
}

bool is_refusal(flifo_status_t status) { return status == FLIFO_TIMEOUT || status == FLIFO_QUEUE_FULL; }

void fail(THD *thd, flifo_status_t why) {
  if (!is_refusal(why)) return server::fail_as_killed(thd);
  flifo_config_t config;
  flifo_admission_config(settings::admission(), &config, sizeof config);
  char text[200];
  if (why == FLIFO_QUEUE_FULL)
    snprintf(text, sizeof text, "flifo: the queue for admission is full (flifo_max_queue = %u); nothing was executed, try again", config.queue_limit);
  else
    snprintf(text, sizeof text, "flifo: not admitted within %llu ms (flifo_queue_timeout); nothing was executed, try again",
             static_cast<unsigned long long>(config.queue_timeout_ns / 1000000));
  server::fail(abi::ERROR_LOCK_WAIT_TIMEOUT, text);
}

void cancel_killed() {
  if (queued.load(std::memory_order_relaxed) != 0) connections::each(cancel_if_killed);
}

}  // namespace flifo::queueing
