// What the core needs of the server that it runs in: each server's part of the plugin defines these functions.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// They are bound when the plugin is linked, so a call costs what a call of the core's own costs. The test program defines them for a
// fake server. The events go the other way: the server's part calls `lifecycle`.
//
// Failure: what a server cannot do is said by the answer, as stated at each function; the rest of the plugin works without.
#pragma once

#include "command.h"

#include <chrono>

namespace flifo::server {

// The server's object of a connection and its thread. The core passes it on and compares addresses; it may be reused.
struct Thread;

// A number that no other connection of the server's life has.
unsigned long id(Thread *thread);
// Whether the statement under way, or the connection, was killed. Also called by the watcher while the thread queues.
bool is_killed(Thread *thread);
// Whether the client's last command is known to be over and the next has not come. No if that is not known.
bool is_idle(Thread *thread);
LockScope lock_scope(Thread *thread);
Command command(Thread *thread);
// Whether waits of its commit are not reported: then the commit is one wait as a whole.
bool hides_commit_waits(Thread *thread);
// Whether the text that begins to run is `init_connect`.
bool runs_init_connect(Thread *thread);
// Whether the connection is known to have come by a port of clients, not by the administrators' port.
bool is_of_main_port(Thread *thread);
// Whether the account bypasses admission by its privileges.
bool may_bypass(Thread *thread);
// Whether the session bypasses admission by its `flifo_bypass`.
bool has_bypass_set(Thread *thread);

// The thread begins to queue: it is shown in the process list, KILL ends `wait_for_kill`, and a pool of threads may start another.
void begin_queueing(Thread *thread);
void end_queueing(Thread *thread);
// Waits until a queued statement is killed, or `most` has passed.
void wait_for_kill(std::chrono::milliseconds most);

// Whether `refuse` works here, and it is known who must not be refused.
bool can_refuse();
// Makes the server end the statement that this thread is about to run; the client gets a copy of `text` as the error of a lock wait
// that took too long. Null: the statement was killed.
void refuse(Thread *thread, const char *text);

// Whether dormancy is possible: idle connections report a network wait, no other plugin needs the events, and this one is not being
// removed. May take locks of the server.
bool may_sleep();
// Switches all reports off except those of connections and waits, and on again. Takes no lock of the server.
void set_events(bool are_on);
// After `set_events(false)`: switches on what another plugin needs that has come in between. May take locks of the server.
void restore_events_of_others();

// Writes a warning to the server's error log.
void warn(const char *text);
// The warning if all statements bypass admission by `may_bypass`.
extern const char *const ALL_BYPASS;

}  // namespace flifo::server
