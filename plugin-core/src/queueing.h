// How a statement queues: visible in the process list, open to KILL, and failed if it is refused.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// The watcher cancels what was killed. The server wakes it when it kills a queued statement (`server::wait_for_kill`); a wake-up may be
// missed, so the watcher also looks at intervals. It may look at a server's thread only while that thread is in `enter`:
//
//   OUT        not queued; the server may free the thread's object at any moment
//   QUEUED     in `enter`; the object stays
//   INSPECTED  in `enter`, and the watcher reads the object; the thread must not leave before QUEUED returns
#pragma once

#include "server.h"

#include <flifo.h>

#include <atomic>

namespace flifo {

struct Connection;

namespace queueing {

enum class Phase : int { OUT, QUEUED, INSPECTED };

struct State {
  std::atomic<Phase> phase{Phase::OUT};
};

// Acquires a slot, and queues for it if it must. FLIFO_CANCELLED if the statement was killed in the queue.
flifo_status_t enter(Connection &connection, server::Thread *thread);
// Whether this is a refusal by `flifo_queue_timeout` or `flifo_max_queue`.
bool is_refusal(flifo_status_t status);
// Makes the server end the statement that was refused, or killed in the queue.
void fail(server::Thread *thread, flifo_status_t why);
// Cancels the queued statements that were killed. For the watcher.
void cancel_killed();

}  // namespace queueing
}  // namespace flifo
