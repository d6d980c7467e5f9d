// How a statement queues: visible in the process list, open to KILL, and failed if it is refused.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// The watcher cancels what was killed. A queued statement waits, as far as the server knows, for a condition that all share: the
// server signals it when it kills the statement, which wakes the watcher. The watcher may miss a signal, so it also looks at
// intervals. It may read a THD only while that THD's thread is in `enter`:
//
//   OUT        not queued; the THD may be freed at any moment
//   QUEUED     in `enter`; the THD stays
//   INSPECTED  in `enter`, and the watcher reads the THD; the thread must not leave before QUEUED returns
#pragma once

#include "server.h"

#include <flifo.h>

#include <atomic>
#include <chrono>

namespace flifo {

struct Connection;

namespace queueing {

enum class Phase : int { OUT, QUEUED, INSPECTED };

struct State {
  std::atomic<Phase> phase{Phase::OUT};
  // The server asks for a mutex beside the condition.
  server::Mutex mutex;
};

// Acquires a slot, and queues for it if it must. FLIFO_CANCELLED if the statement was killed in the queue.
flifo_status_t enter(Connection &connection, MYSQL_THD thd);
// Whether this is a refusal by `flifo_queue_timeout` or `flifo_max_queue`.
bool is_refusal(flifo_status_t status);
// Makes the server end the statement that was refused, or killed in the queue.
void fail(MYSQL_THD thd, flifo_status_t why);
// Waits until a queued statement is killed, or `most` has passed. For the watcher.
void wait_for_kill(std::chrono::milliseconds most);
// Cancels the queued statements that were killed. For the watcher.
void cancel_killed();

}  // namespace queueing
}  // namespace flifo
