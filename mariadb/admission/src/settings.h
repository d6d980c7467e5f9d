// The scheduler, and the system variables that configure it.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// A wrong value is refused by `SET GLOBAL` with error 1231, which names the minimum and the maximum. In an option file the
// server clamps a number, with a warning. Failure: if the scheduler refuses a configuration, the old one stays, and the error
// log has the reason.
#pragma once

#include "server.h"

#include <flifo.h>

namespace flifo::settings {

// Creates the scheduler from the server's options. Returns null, or one line that says what is wrong.
const char *open(flifo_admission_t &admission);
// Frees the scheduler.
void close();
// The scheduler. All zero before `open`.
flifo_admission_t admission();
// Whether there is a limit: `flifo_thread_concurrency` is not 0.
bool is_on();
// Whether the session bypasses admission by its `flifo_bypass`.
bool bypasses(MYSQL_THD thd);
// The variables, for the plugin's declaration.
extern st_mysql_sys_var *variables[];

}  // namespace flifo::settings
