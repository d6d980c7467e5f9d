// The status variables, and the hint for an administrator whose own statements bypass admission.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// SHOW STATUS takes one snapshot of the scheduler. All variables are numbers, which exporters collect, except `Flifo_level`
// and `Flifo_note`.
#pragma once

#include "server.h"

namespace flifo::status {

// The plugin is loaded: all counts are 0, and `Flifo_level` is "statements".
void open();
// Sets `Flifo_level`, what the plugin does on this server.
void set_level(const char *level);
// A statement bypassed admission: of an administrator, or of a connection that could not be tracked.
void count_bypass();
// A statement failed because it queued too long, or because too many queued.
void count_refusal();
// Warns in the error log, once, if many statements ran and all bypassed admission. For the watcher.
void warn_if_all_bypass();
// The variables, for the plugin's declaration.
extern st_mysql_show_var variables[];

}  // namespace flifo::status
