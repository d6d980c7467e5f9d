// The status variables `Flifo_*`.
//
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "abi.h"

namespace flifo::status {

// How much of the server is used: statements, or statements and waits.
void set_level(const char *level);
extern const abi::ShowVariable variables[];

}  // namespace flifo::status
