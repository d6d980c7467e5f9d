// SPDX-License-Identifier: GPL-2.0-only

#include "queueing.h"

#include "connection.h"
#include "settings.h"

#include <mysql/service_kill_statement.h>
#include <mysql/service_progress_report.h>
#include <mysql/service_thd_wait.h>
#include <mysqld_error.h>
#include <sched.h>

#include <cstdio>
#include <mutex>

namespace flifo::queueing {
namespace {

// The error of a refused statement: one that clients and frameworks repeat.
constexpr unsigned REFUSED = ER_LOCK_WAIT_TIMEOUT;

// Threads in `enter`.
std::atomic<unsigned> queued{0};

// Signalled by the server when it kills a queued statement.
server::Condition killed;
std::mutex watcher_waits;

// While this lives, the watcher may read the THD.
class Shown {
 public:
  Shown(Connection &connection, MYSQL_THD thd)
      : connection(connection), thd(thd), before(thd_proc_info(thd, "Waiting for admission")) {
    flifo_forget_cancel(connection.session);
    // Otherwise a pool of threads lacks one worker, and clients cannot connect.
    server::wait_begin_before(thd, THD_WAIT_USER_LOCK);
    connection.queue.phase.store(Phase::QUEUED, std::memory_order_release);
    queued.fetch_add(1, std::memory_order_relaxed);
    server::begin_killable_wait(thd, killed, connection.queue.mutex);
  }

  ~Shown() {
    server::end_killable_wait(thd, connection.queue.mutex);
    queued.fetch_sub(1, std::memory_order_relaxed);
    Phase phase = Phase::QUEUED;
    // The watcher inspects for a few instructions.
    while (!connection.queue.phase.compare_exchange_weak(phase, Phase::OUT, std::memory_order_acquire)) {
      phase = Phase::QUEUED;
      sched_yield();
    }
    server::wait_end_before(thd);
    thd_proc_info(thd, before);
  }

 private:
  Connection &connection;
  MYSQL_THD thd;
  const char *before;
};

void cancel_if_killed(Connection &connection) {
  std::atomic<Phase> &phase = connection.queue.phase;
  // Read first, since a failed exchange takes the cache line from another CPU, too.
  if (phase.load(std::memory_order_relaxed) != Phase::QUEUED) return;
  Phase expected = Phase::QUEUED;
  if (!phase.compare_exchange_strong(expected, Phase::INSPECTED, std::memory_order_acquire)) return;
  if (thd_kill_level(connection.thd.load(std::memory_order_relaxed)) != THD_IS_NOT_KILLED)
    flifo_cancel(connection.canceller);
  phase.store(Phase::QUEUED, std::memory_order_release);
}

}  // namespace

flifo_status_t enter(Connection &connection, MYSQL_THD thd) {
  const Shown shown(connection, thd);
  return flifo_enter(connection.session);
}

bool is_refusal(flifo_status_t status) { return status == FLIFO_TIMEOUT || status == FLIFO_QUEUE_FULL; }

void fail(MYSQL_THD thd, flifo_status_t why) {
  if (!server::can_refuse()) return;
  if (why == FLIFO_CANCELLED) return server::refuse(thd, 0, nullptr);
  flifo_config_t config;
  flifo_admission_config(settings::admission(), &config, sizeof config);
  char text[200];
  if (why == FLIFO_QUEUE_FULL) {
    snprintf(text, sizeof text, "flifo: the queue for admission is full (flifo_max_queue = %u); nothing was executed, try again",
             config.queue_limit);
    return server::refuse(thd, REFUSED, text);
  }
  snprintf(text, sizeof text, "flifo: not admitted within %llu ms (flifo_queue_timeout); nothing was executed, try again",
           static_cast<unsigned long long>(config.queue_timeout_ns / 1000000));
  server::refuse(thd, REFUSED, text);
}

void wait_for_kill(std::chrono::milliseconds most) {
  std::unique_lock<std::mutex> guard(watcher_waits);
  killed.wait_for(guard, most);
}

// Relaxed: a statement that has just begun to queue is seen the next time.
void cancel_killed() {
  if (queued.load(std::memory_order_relaxed) != 0) connections::each(cancel_if_killed);
}

}  // namespace flifo::queueing
