// SPDX-License-Identifier: GPL-2.0-only

#include "rowlocks.h"

namespace flifo::rowlocks {
namespace {

// Sequentially consistent, both: each side counts itself first, and then looks for the other.
std::atomic<unsigned> waiting{0};
std::atomic<unsigned> holders_queued{0};

}  // namespace

void wait_begins(Connection &connection) {
  connection.waits_for_row.store(true, std::memory_order_relaxed);
  waiting.fetch_add(1);
  // For good: within its turn an exit may leave the place free for it to come back, and the holder in the queue.
  if (holders_queued.load() != 0) connection.gave_up_place = flifo_exit_for_good(connection.session) == FLIFO_OK;
}

void wait_ends(Connection &connection) {
  if (!connection.waits_for_row.load(std::memory_order_relaxed)) return;
  connection.waits_for_row.store(false, std::memory_order_relaxed);
  waiting.fetch_sub(1);
  // It never queues: it may have got the lock, and others wait for it now.
  if (connection.gave_up_place) flifo_enter_past_limit(connection.session);
  connection.gave_up_place = false;
}

bool holder_must_enter() {
  holders_queued.fetch_add(1);
  if (waiting.load() == 0) return false;
  holders_queued.fetch_sub(1);
  return true;
}

void holder_came_out() { holders_queued.fetch_sub(1); }

unsigned waiters() { return waiting.load(std::memory_order_relaxed); }

}  // namespace flifo::rowlocks
