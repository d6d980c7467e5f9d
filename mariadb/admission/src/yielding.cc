// SPDX-License-Identifier: GPL-2.0-only

#include "yielding.h"

#include <sched.h>

#include <algorithm>

namespace flifo::yielding {
namespace {

using Clock = std::chrono::steady_clock;

// Who sleeps for so long after a yield has yielded in vain: a client on the same machine that has the processor's next moments
// is back sooner.
constexpr std::chrono::microseconds SLEPT{100};
constexpr unsigned WITHOUT_MAX = 63;

}  // namespace

void before_sleep(Yields &yields) {
  if (yields.without != 0) {
    yields.without--;
    return;
  }
  sched_yield();
  yields.since = Clock::now();
}

void after_sleep(Yields &yields) {
  if (yields.since == Clock::time_point{}) return;
  const bool in_vain = Clock::now() - yields.since > SLEPT;
  yields.since = {};
  yields.without_last = in_vain ? std::min(2 * yields.without_last + 1, WITHOUT_MAX) : 0;
  yields.without = yields.without_last;
}

}  // namespace flifo::yielding
