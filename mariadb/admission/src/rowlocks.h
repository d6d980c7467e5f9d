// Waits for row locks: who keeps a place, and who may do without.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// A statement that waits for a row lock keeps its place. If it gave it up, the next would come in, wait for the same
// row, and give up its place too: the lock queues, and with them what each release looks at, would grow to the number
// of connections. That is the very collapse the limit is there to prevent. (If it waits for long, `lending` lends the place.)
//
// But those it waits for must get in. So while anybody waits for a row lock in a place, transactions that may hold
// locks enter past the limit; and when one of them is in the queue already, the waiter gives its place up after all. One
// of the two always sees the other.
//
// And where the owners of rows are idle between two statements of a transaction, for round trips and the application's work, a place
// that is kept is nobody's: those who wait would fill them all, and the processors idle. So while they are, those who wait give their
// places up at once, as many as the server can stand.

#ifndef FLIFO_ROWLOCKS_H
#define FLIFO_ROWLOCKS_H

#include "connection.h"

namespace flifo::rowlocks {

// A statement with a place begins to wait for a row lock. It may have none after this.
void wait_begins(Connection &connection);

// It waits no more, and has its place again if it gave it up.
void wait_ends(Connection &connection);

// A transaction that may hold locks asks for a place, and there is none. True: it must not queue. False: it is now
// counted among those in the queue, until `holder_came_out`.
bool holder_must_enter();
void holder_came_out();

// A transaction that may hold locks is between two statements; it is no more.
void owner_idles(Connection &connection);
void owner_is_back(Connection &connection);

// Counts what has been released since it was called last: what a release costs the server grows with the square of those who wait.
// Every few milliseconds, always from the same thread.
void measure();

// Statements that wait for row locks now.
unsigned waiters();

}  // namespace flifo::rowlocks

#endif
