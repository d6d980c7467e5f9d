// Statements that sleep in their places without a word: their places go to the next for so long.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// The server tells of many waits, but not of all: not of most waits for the redo log to be synced, which a commit over the
// text protocol does before its last event, nor of the sync itself. And waits for row locks keep their places, since most are
// short. So a thread looks at those inside, in /proc. A statement whose thread has slept from one look to the next lends its
// place, and takes it back at the look that sees it run again.

#ifndef FLIFO_SLEEPERS_H
#define FLIFO_SLEEPERS_H

#include "connection.h"

namespace flifo::sleepers {

// How often a place was lent.
extern std::atomic<unsigned long long> lent;

// How many are lent now.
extern std::atomic<unsigned long long> lent_now;

// This thread serves this connection from now on.
void serves(Connection &connection);

// The connection's statement has asked for a place, and is inside unless it was refused: it is looked at.
void comes_in(Connection &connection);

// It leaves.
void goes_out(Connection &connection);

// Starts looking; false if the system has no thread left.
bool start_watching();
void stop_watching();

}  // namespace flifo::sleepers

#endif
