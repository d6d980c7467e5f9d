// The server's calls around its waits, and its notice of KILL CONNECTION, as events of the core.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// `hook` puts the plugin's functions in front of the server's own, which a pool of threads may have set; each call goes on to
// them. The server reads the pointer to the functions once a call, so the functions may change at any time. A wait ends with a
// forced entry and never in the queue, since the thread may hold mutexes.
//
// Failure: a server that does not export its functions reports no waits; `hook` returns false.
#pragma once

#include "abi.h"

#include <chrono>

namespace flifo::wait_hook {

// Puts the plugin's functions in front. False if the server does not export where they are.
bool hook();
// Removes them, unless another plugin has put its own in front since; then they stay and only call on.
void unhook();
// The functions behind ours; they do nothing in a server without a pool of threads.
void begin_behind(THD *thd, int kind);
void end_behind(THD *thd);
// Waits until a connection is killed, or `most` has passed.
void wait_for_kill(std::chrono::milliseconds most);

}  // namespace flifo::wait_hook
