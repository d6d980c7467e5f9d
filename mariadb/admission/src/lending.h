// The places of statements that sleep in them without a word, or stay in them for long: they go to the next meanwhile.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// The server tells of many waits, but not of all: not of most waits for the redo log to be synced, which a commit over the
// text protocol does before its last event, nor of the sync itself. And waits for row locks keep their places, since most are
// short. So a thread looks at those inside, in /proc. A statement whose thread has slept from one look to the next lends its
// place, and takes it back at the look that sees it run again.
//
// And no statement can be interrupted, so as many reports as there are places would keep all others out until one ends. One that
// has been inside for `flifo_stall_after`, with no wait that gives its place up, while others queue lends it until it leaves: from
// then on it is the kernel that shares the processors between it and the others, as a pool of threads has it after its stall limit.

#ifndef FLIFO_LENDING_H
#define FLIFO_LENDING_H

#include "connection.h"

namespace flifo::lending {

// How often a place was lent.
extern std::atomic<unsigned long long> lent;

// How many are lent now.
extern std::atomic<unsigned long long> lent_now;

// This thread serves this connection from now on.
void serves(Connection &connection);

// The connection's statement has asked for a place, and is inside unless it was refused: it is looked at.
void comes_in(Connection &connection);

// It has queued again, as a procedure does.
void stays_anew(Connection &connection);

// A wait has ended for which it gave its place up: one that has stayed for long holds none after it, either.
void ends_wait(Connection &connection);

// It leaves.
void goes_out(Connection &connection);

// Starts looking; false if the system has no thread left.
bool start_watching();
void stop_watching();

}  // namespace flifo::lending

#endif
