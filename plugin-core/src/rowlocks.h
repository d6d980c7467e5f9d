// Waits for row locks: which waiters keep their slots, and which transactions enter above the limit for their sake.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// A statement that waits for a row lock keeps its slot. If it released the slot, the next statement would enter, wait for the
// same row and release its slot too: the lock queue, which the server walks at each release, would grow to the number of
// connections. The limit exists to prevent that collapse.
//
// The holder of the row must get in. While a statement waits for a row lock in its slot, transactions that may hold locks are
// admitted by force; if such a transaction is already queued, the waiter releases its slot instead. Each side counts itself
// first and then looks for the other, so one of the two always sees the other.
//
// Where owners of rows idle between statements of a transaction, slots of waiters are wasted. While that is so, waiters
// release their slots, up to a number that the server's lock queues can bear.
#pragma once

#include <chrono>

namespace flifo {

struct Connection;

namespace rowlocks {

struct State {
  bool is_waiting = false;
  // The slot was released for this wait.
  bool released_slot = false;
  // Since when the session idles as an owner of rows; zero: it does not.
  std::chrono::steady_clock::time_point idle_since;
};

// A statement with a slot begins to wait for a row lock. It may have no slot after this.
void begin_wait(Connection &connection);
// The wait ends, if there is one. The statement has its slot again.
void end_wait(Connection &connection);
// A transaction that may hold locks found no slot. True: it must be admitted by force. False: it is counted as queued until
// `holder_left_queue`.
bool must_admit_holder();
void holder_left_queue();
// A transaction that may hold locks is between two statements; its next statement begins; it has ended without one.
void begin_idle(Connection &connection);
void end_idle(Connection &connection);
void cancel_idle(Connection &connection);
// Measures the rate of row-lock grants: the cost of a grant grows with the square of the waiters. For the watcher.
void measure();
// The statements that wait for row locks now.
unsigned waiters();

}  // namespace rowlocks
}  // namespace flifo
