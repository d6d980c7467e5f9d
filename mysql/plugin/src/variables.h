// The system variables and the status variables, as this server declares them.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// A wrong value is refused by `SET GLOBAL` with error 1231, which names the minimum and the maximum. In an option file the
// server clamps a number, with a warning. If the scheduler refuses a configuration, the error log has the reason.
#pragma once

#include "abi.h"

namespace flifo::variables {

// For the plugin's declaration.
extern abi::Variable *system[];
extern const abi::ShowVariable status_rows[];
// Whether the session bypasses admission by its `flifo_bypass`.
bool has_bypass_set(THD *thd);

}  // namespace flifo::variables
