// The system variables `flifo_*`, and the scheduler they configure.
//
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "abi.h"

#include <flifo.h>

namespace flifo::settings {

// Makes the scheduler. Returns null, or one line that says what is wrong.
const char *open(flifo_admission_t &admission);
// Frees the scheduler.
void close();
flifo_admission_t admission();
// Whether a limit is set.
bool is_on();
extern abi::Variable *variables[];

}  // namespace flifo::settings
