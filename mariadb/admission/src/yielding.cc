// SPDX-License-Identifier: GPL-2.0-only

#include "yielding.h"

#include <algorithm>

namespace flifo {
namespace {

// A yield was in vain for who sleeps for so long after it. A client that is about to run on the same machine is back sooner.
constexpr std::chrono::microseconds LONG_SLEEP{100};
// So many yields are left out after one, at most.
constexpr unsigned SKIPS_MAX = 63;
// So often it yields before one statement after the other. With 1 or 3 those who are together were torn apart too often.
constexpr unsigned IN_A_ROW_MAX = 10;

void add_one(std::atomic<unsigned long long> &count) {
  // No exchange: nobody else adds.
  count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

bool Yields::decides_to_yield() {
  const bool is_next = statements == statements_at_last + 1;
  statements_at_last = statements;
  if (skips_left != 0) {
    skips_left--;
    in_a_row = 0;
    return false;
  }
  in_a_row = is_next ? in_a_row + 1 : 1;
  if (in_a_row <= IN_A_ROW_MAX) return true;
  in_a_row = 0;
  return false;
}

void Yields::has_slept(Clock::time_point since) {
  add_one(made);
  const bool was_in_vain = Clock::now() - since >= LONG_SLEEP;
  if (was_in_vain) add_one(in_vain);
  skips_last = was_in_vain ? std::min(2 * skips_last + 1, SKIPS_MAX) : 0;
  skips_left = skips_last;
}

void Yields::begin_anew() { skips_left = skips_last = in_a_row = 0; }

void Yields::add_to(YieldCounts &all) const {
  all.made += made.load(std::memory_order_relaxed);
  all.in_vain += in_vain.load(std::memory_order_relaxed);
}

void Yields::forget_counts() {
  for (auto *count : {&made, &in_vain}) count->store(0, std::memory_order_relaxed);
}

}  // namespace flifo
