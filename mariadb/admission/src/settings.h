// The scheduler, and the system variables that set it.
//
// SPDX-License-Identifier: GPL-2.0-only

#ifndef FLIFO_SETTINGS_H
#define FLIFO_SETTINGS_H

#include "server.h"

#include <flifo.h>

#include <atomic>
#include <chrono>

namespace flifo::settings {

// Makes the scheduler with what the option file and the command line say. Null, or one line that says what is
// wrong with it.
const char *open(flifo_admission_t &admission);

// Gives the scheduler up.
void close();

// The scheduler. All zero before `open`.
flifo_admission_t admission();

// Whether statements have to ask at all: false with `flifo_thread_concurrency` 0.
bool is_on();

// Whether the places of statements that sleep are lent: `flifo_lend_sleepers`.
bool lends_sleepers();

// How long a statement may be inside before its place is lent; zero: as long as it takes. `flifo_stall_after`.
std::chrono::milliseconds stall_after();

// So many statements that only read are let in past the limit while nobody queues: `flifo_read_concurrency`.
unsigned read_concurrency();

// Whether connections yield before they sleep until their clients' next statements: `flifo_yield`. With no limit none does, since statements ask nobody.
bool yields();

// Whether this session asks nobody, by its `flifo_bypass`.
bool bypasses(MYSQL_THD thd);

// The variables, for the plugin's declaration.
extern st_mysql_sys_var *variables[];

}  // namespace flifo::settings

#endif
