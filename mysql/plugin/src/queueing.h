// Statements in the queue: how they are shown, killed and refused.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// A queued statement is in the stage "Waiting for admission". KILL CONNECTION ends its queueing at once (`waits`); the server
// only marks the statement for KILL QUERY and for an expired time, which the watcher sees within `WATCHED_EVERY`.
//
// Failure: a server that does not export its stages shows nothing. Without `thd_killed` only KILL CONNECTION ends a queued
// statement.
#pragma once

#include "connection.h"

#include <chrono>

namespace flifo::queueing {

constexpr std::chrono::milliseconds WATCHED_EVERY{20};

// Makes the stage known to the performance schema.
void open();
// Queues until the session has a slot or is refused.
flifo_status_t enter(Connection &connection, THD *thd);
// Whether the statement failed because of a setting, not because it was killed.
bool is_refusal(flifo_status_t status);
// Fails the thread's statement with the error that belongs to this status.
void fail(THD *thd, flifo_status_t why);
// Ends the queueing of statements that are killed. For the watcher.
void cancel_killed();

}  // namespace flifo::queueing
