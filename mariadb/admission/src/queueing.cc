// SPDX-License-Identifier: GPL-2.0-only

#include "queueing.h"

#include "watcher.h"

#include <mysql/service_kill_statement.h>
#include <mysql/service_progress_report.h>
#include <mysql/service_thd_wait.h>
#include <sched.h>

#include <chrono>

namespace flifo::queueing {
namespace {

// How long a killed statement stays in the queue at most.
constexpr std::chrono::milliseconds LOOKS_EVERY{25};

std::atomic<unsigned> queued{0};

Watcher watcher;

// While this lives, its THD may be looked at by `watch`.
class Shown {
 public:
  Shown(Connection &connection, MYSQL_THD thd)
      : connection(connection), thd(thd), before(thd_proc_info(thd, "Waiting for admission")) {
    flifo_forget_cancel(connection.session);
    // A pool of threads would have one worker less, and nobody could connect until it missed it.
    server::wait_begin_before(thd, THD_WAIT_USER_LOCK);
    connection.queueing.store(Queueing::Yes, std::memory_order_release);
  }

  ~Shown() {
    Queueing queueing = Queueing::Yes;
    // A look is a few instructions long.
    while (!connection.queueing.compare_exchange_weak(queueing, Queueing::No, std::memory_order_acquire)) {
      queueing = Queueing::Yes;
      sched_yield();
    }
    server::wait_end_before(thd);
    thd_proc_info(thd, before);
  }

  Shown(const Shown &) = delete;
  Shown &operator=(const Shown &) = delete;

 private:
  Connection &connection;
  MYSQL_THD thd;
  const char *before;
};

}  // namespace

flifo_status_t enter(Connection &connection, MYSQL_THD thd) {
  const Shown shown(connection, thd);
  queued.fetch_add(1, std::memory_order_relaxed);
  const flifo_status_t status = flifo_enter(connection.session);
  queued.fetch_sub(1, std::memory_order_relaxed);
  return status;
}

unsigned length() { return queued.load(std::memory_order_relaxed); }

bool start_watching() {
  return watcher.start(LOOKS_EVERY, [] {
    // There may be thousands of connections to look at. One that has just begun to queue is looked at the next time.
    if (length() != 0) connections::cancel_killed();
    return LOOKS_EVERY;
  });
}

void stop_watching() { watcher.stop(); }

}  // namespace flifo::queueing
