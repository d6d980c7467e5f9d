// Waits that the server reports, during which the slot is released.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// Waits nest. A wait ends with a forced entry, never in the queue: the thread may hold a latch, a mutex or a row that others
// wait for. A commit is one wait as a whole where the server does not report all waits inside it, as with a binary log. Waits that the server does not report are left to the scheduler's watchdog (`flifo_stall_limit`).
#pragma once

#include <flifo.h>

namespace flifo {

struct Connection;

namespace waits {

// The waits that release the slot: all except those for row locks (see rowlocks.h).
constexpr unsigned MASK = FLIFO_WAIT_MASK_ALL & ~(1U << FLIFO_WAIT_ROW_LOCK);

struct State {
  // The kinds of the waits it is in, innermost last; deeper ones are only counted.
  static constexpr unsigned DEPTH_MAX = 8;
  unsigned depth;
  unsigned char kinds[DEPTH_MAX];
  // The outermost wait is a commit, and this many commits are nested in it: a cluster's commits nest.
  bool is_commit;
  unsigned nested_commits;
};

// A wait begins. Returns whether the statement keeps its slot.
bool begin(Connection &connection, flifo_wait_kind_t kind);
// The innermost wait ends. Returns whether it was for a row lock.
bool end(Connection &connection);
// A commit begins: it is a wait unless the statement keeps its slot.
void begin_commit(Connection &connection);
// Whether the commit that ends now is the outermost one.
bool ends_commit(Connection &connection);

}  // namespace waits
}  // namespace flifo
