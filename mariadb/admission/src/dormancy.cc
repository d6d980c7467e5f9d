// SPDX-License-Identifier: GPL-2.0-only

#include "dormancy.h"

#include "stages.h"

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
  stages::pause();
  server::set_statement_events(false);
}

void end() {
  periods.fetch_add(1, std::memory_order_relaxed);
  server::set_statement_events(true);
  stages::resume();
  on.store(false, std::memory_order_release);
}

// Also false if the plugin is being removed: INSTALL needs the stages then.
bool may_sleep() { return !server::has_pool_of_threads() && server::is_only_audit_plugin(); }

}  // namespace

bool is_on() { return on.load(std::memory_order_acquire); }
unsigned period() { return periods.load(std::memory_order_relaxed); }

void update(flifo_admission_t admission) {
  wake(admission);
  if (!is_dormant(admission)) return;
  const bool may = may_sleep();
  bool has_begun = false;
  {
    std::lock_guard<std::mutex> guard(change);
    has_begun = may && !is_on() && is_dormant(admission);
    if (has_begun) begin();
    if (!may && is_on()) end();
  }
  // Another plugin may have come in between. One that comes later switches the events on itself.
  if (has_begun && !server::is_only_audit_plugin()) server::set_statement_events(true);
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
