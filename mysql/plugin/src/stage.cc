// SPDX-License-Identifier: GPL-2.0-only

#include "stage.h"

#include "exports.h"

namespace flifo::stage {
namespace {

abi::Stage waiting{0, "Waiting for admission", 0, "The statement queues for a slot (flifo_thread_concurrency)."};
thread_local abi::Stage before;

}  // namespace

void open() { exports::register_stage(waiting); }
void begin(THD *thd) { exports::enter_stage(thd, waiting, &before); }
void end(THD *thd) { exports::enter_stage(thd, before, nullptr); }

}  // namespace flifo::stage
