// What the status variables show, and the hint for an administrator whose own statements bypass admission.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// A report takes one snapshot of the scheduler. All rows are numbers, which exporters collect, except three texts.
#pragma once

#include <cstddef>

namespace flifo::status {

// A status variable, by its name behind `Flifo_`.
struct Row {
  const char *name;
  // Null: `number` counts.
  const char *text;
  unsigned long long number;
};
constexpr size_t ROWS_MAX = 40;

// Fills the rows with what is true now; returns their number.
size_t report(Row (&rows)[ROWS_MAX]);
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

}  // namespace flifo::status
