// SPDX-License-Identifier: GPL-2.0-only

#include "dormancy.h"

#include "server.h"

#include <atomic>
#include <mutex>

namespace flifo::dormancy {
namespace {

std::atomic<bool> on{false};
std::atomic<unsigned> periods{0};
// Makes a change of `on` one step with its cause. No lock of the server is taken under it.
std::mutex change;

bool is_dormant(flifo_admission_t admission) {
  int is = 0;
  flifo_auto_state(admission, nullptr, &is);
  return is != 0;
}

void begin() {
  on.store(true, std::memory_order_release);
  server::set_events(false);
}

void end() {
  periods.fetch_add(1, std::memory_order_relaxed);
  server::set_events(true);
  on.store(false, std::memory_order_release);
}

}  // namespace

bool is_on() { return on.load(std::memory_order_acquire); }
unsigned period() { return periods.load(std::memory_order_relaxed); }

void update(flifo_admission_t admission) {
  wake(admission);
  if (!is_dormant(admission)) return;
  const bool may = server::may_sleep();
  bool has_begun = false;
  {
    std::lock_guard<std::mutex> guard(change);
    has_begun = may && !is_on() && is_dormant(admission);
    if (has_begun) begin();
    if (!may && is_on()) end();
  }
  if (has_begun) server::restore_events_of_others();
}

void wake(flifo_admission_t admission) {
  std::lock_guard<std::mutex> guard(change);
  if (is_on() && !is_dormant(admission)) end();
}

void close() {
  std::lock_guard<std::mutex> guard(change);
  if (is_on()) end();
}

}  // namespace flifo::dormancy
