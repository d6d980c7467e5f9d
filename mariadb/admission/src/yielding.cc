// SPDX-License-Identifier: GPL-2.0-only

#include "yielding.h"

#include <algorithm>

namespace flifo {
namespace {

using Clock = std::chrono::steady_clock;

// A yield was in vain for who sleeps for so long after it. A client that is about to run on the same machine is back sooner.
constexpr std::chrono::microseconds LONG_SLEEP{100};
// So often one goes to sleep without, at most.
constexpr unsigned WITHOUT_MAX = 63;
// So often it yields before one statement after the other. It is not for nothing that it sleeps: so a few in a row are no reason.
constexpr unsigned IN_A_ROW_MAX = 10;

void add_one(std::atomic<unsigned long long> &count) {
  // No exchange: nobody else adds.
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

bool Yields::is_due() {
  const bool again = statements == statements_then + 1;
  statements_then = statements;
  in_a_row = again ? in_a_row + 1 : 1;
  if (without != 0) {
    without--;
    return false;
  }
  if (in_a_row <= IN_A_ROW_MAX) return true;
  in_a_row = 0;
  return false;
}

void Yields::has_yielded() {
  add_one(made);
  since = Clock::now();
}

void Yields::after_sleep() {
  if (since == Clock::time_point{}) return;
  const bool was_in_vain = Clock::now() - since >= LONG_SLEEP;
  since = {};
  if (was_in_vain) add_one(in_vain);
  without_last = was_in_vain ? std::min(2 * without_last + 1, WITHOUT_MAX) : 0;
  without = without_last;
}

void Yields::begin_anew() {
  since = {};
  without = without_last = in_a_row = 0;
}

void Yields::add_to(YieldCounts &all) const {
  all.made += made.load(std::memory_order_relaxed);
  all.in_vain += in_vain.load(std::memory_order_relaxed);
}

void Yields::forget_counts() {
  for (auto *count : {&made, &in_vain}) count->store(0, std::memory_order_relaxed);
}

}  // namespace flifo
