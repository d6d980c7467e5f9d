// Starts and stops the core, and runs the watcher.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// The server's part calls `start`, then lets events come; it stops the events, then calls `stop`. Events may come before `start` and
// after `stop`, and have no effect then.
#pragma once

namespace flifo::core {

// Starts with the settings in `settings::values`. Returns null, or one line that says why the plugin cannot be loaded; nothing is left
// then.
const char *start();
// Ends all connections, and frees the scheduler. No statement may be under way.
void stop();

}  // namespace flifo::core
