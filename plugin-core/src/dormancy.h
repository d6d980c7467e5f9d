// Dormancy: while no limit is in force, statements cost the server nothing but two wait callbacks.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// An adaptive limit that is not in force needs only to know how many statements run and how many end. The wait for a client's next
// command shows both, so the plugin switches off what costs more: the server's reports of statements and commits.
//
//   awake    all events are on; a connection may hold a slot
//   dormant  a connection enters uncounted when its client's command arrives, and exits when it waits for the next
//
// What a connection did while the plugin was dormant is not known. Dormant periods are counted as they end, and a connection with an
// older count is treated like a connection from before INSTALL: a statement under way bypasses, and the session may hold locks.
//
// Failure: where the server needs the events for another plugin, or idle connections do not wait (`server::may_sleep`), the plugin
// stays awake.
#pragma once

#include <flifo.h>

namespace flifo::dormancy {

// Whether the plugin is dormant. It may change at any time.
bool is_on();
// The number of dormant periods that have ended.
unsigned period();
// Follows the scheduler; called by the watcher.
void update(flifo_admission_t admission);
// Ends dormancy if the scheduler is no longer dormant. Takes no lock of the server.
void wake(flifo_admission_t admission);
// Ends dormancy for good.
void close();

}  // namespace flifo::dormancy
