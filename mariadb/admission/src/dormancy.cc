// SPDX-License-Identifier: GPL-2.0-only

#include "dormancy.h"

#include "stages.h"

#include <atomic>

namespace flifo::dormancy {
namespace {

// Calls of `update` between two counts of the server's audit plugins, which take a lock of the server.
constexpr unsigned COUNT_EVERY = 10;

std::atomic<bool> on{false};
std::atomic<unsigned> periods{0};
// Only the watcher touches it.
unsigned until_count;

void begin() {
  periods.fetch_add(1, std::memory_order_relaxed);
  on.store(true, std::memory_order_release);
  stages::pause();
  server::set_statement_events(false);
  // Another plugin may have come in between. One that comes later switches the events on itself.
  if (!server::is_only_audit_plugin()) server::set_statement_events(true);
}

void end() {
  server::set_statement_events(true);
  stages::resume();
  on.store(false, std::memory_order_release);
}

// Also if the plugin is being removed: INSTALL needs the stages then.
bool may_sleep() { return !server::has_pool_of_threads() && server::is_only_audit_plugin(); }

}  // namespace

bool is_on() { return on.load(std::memory_order_acquire); }
unsigned period() { return periods.load(std::memory_order_relaxed); }

void update(flifo_admission_t admission) {
  int is_dormant = 0;
  flifo_auto_state(admission, nullptr, &is_dormant);
  const bool was_dormant = on.load(std::memory_order_relaxed);
  if (is_dormant == 0) {
    if (was_dormant) end();
    until_count = 0;
    return;
  }
  if (until_count != 0) {
    until_count--;
    return;
  }
  until_count = COUNT_EVERY;
  const bool may = may_sleep();
  if (may && !was_dormant) begin();
  if (!may && was_dormant) end();
}

void close() {
  if (on.load(std::memory_order_relaxed)) end();
}

}  // namespace flifo::dormancy
