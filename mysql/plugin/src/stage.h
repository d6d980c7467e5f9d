// The stage "Waiting for admission", in which SHOW PROCESSLIST and the performance schema show a queued statement.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// Failure: a server that does not export its stages shows nothing.
#pragma once

#include "abi.h"

namespace flifo::stage {

// Makes the stage known to the performance schema.
void open();
// The thread enters the stage, and returns to the one before.
void begin(THD *thd);
void end(THD *thd);

}  // namespace flifo::stage
