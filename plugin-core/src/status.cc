// SPDX-License-Identifier: GPL-2.0-only

#include "status.h"

#include "rowlocks.h"
#include "server.h"
#include "settings.h"

#include <atomic>
#include <cstring>

namespace flifo::status {
namespace {

// The warning needs this many statements: a few are an administrator's at work.
constexpr unsigned long long WARN_FROM = 1000;

constexpr auto RELAXED = std::memory_order_relaxed;
const char *level = "";
std::atomic<unsigned long long> bypassed{0}, refused{0};
// The warning was written, or will not be needed. Only the watcher touches it.
bool is_settled;

// In the order of the kinds.
constexpr const char *WAITS[FLIFO_WAIT_KINDS] = {"wait_row_lock_us", "wait_table_lock_us", "wait_disk_us", "wait_network_us",
                                                 "wait_log_sync_us", "wait_sleep_us",      "wait_user_us"};

// Slots acquired since the plugin was loaded.
unsigned long long admitted(const flifo_snapshot_t &now) {
  return now.admitted_at_once + now.admitted_by_barging + now.admitted_from_queue + now.admitted_by_force;
}

bool take_snapshot(flifo_snapshot_t &now) {
  memset(&now, 0, sizeof now);
  return flifo_snapshot(settings::admission(), &now, sizeof now) == FLIFO_OK;
}

// What an adaptive limit does now.
const char *auto_state() {
  // In the order of `flifo_auto_state_t`.
  constexpr const char *NAMES[] = {"off", "calm", "comparing", "limited", "open"};
  int state = FLIFO_AUTO_OFF;
  flifo_auto_state(settings::admission(), &state, nullptr);
  return NAMES[state];
}

const char *note(const flifo_snapshot_t &now) {
  return bypassed.load(RELAXED) != 0 && admitted(now) == 0 ? server::ALL_BYPASS : "";
}

unsigned long long total_us(const flifo_times_t &times) {
  return static_cast<unsigned long long>(static_cast<double>(times.count) * static_cast<double>(times.mean_ns) / 1000);
}

struct Out {
  Row (&rows)[ROWS_MAX];
  size_t length = 0;

  void add_text(const char *name, const char *text) { rows[length++] = {name, text, 0}; }
  void add(const char *name, unsigned long long number) { rows[length++] = {name, nullptr, number}; }
};

}  // namespace

size_t report(Row (&rows)[ROWS_MAX]) {
  flifo_snapshot_t now;
  take_snapshot(now);
  Out out{rows};
  out.add_text("level", level);
  out.add_text("note", note(now));
  out.add_text("auto_state", auto_state());
  out.add("thread_concurrency", now.thread_concurrency);
  out.add("running", now.running);
  out.add("pending", now.pending);
  out.add("queued", now.queued);
  // Waiters without a slot, which the scheduler counts, and waiters with one.
  out.add("lock_waiters", now.lock_waiters + rowlocks::waiters());
  out.add("disk_waits", now.disk_waits);
  out.add("running_max", now.running_max);
  out.add("queued_max", now.queued_max);
  out.add("admitted", admitted(now));
  out.add("admitted_from_queue", now.admitted_from_queue);
  out.add("admitted_by_force", now.admitted_by_force);
  // The plugin's own count: the scheduler also refuses holders of locks, which then enter by force.
  out.add("refused", refused.load(RELAXED));
  out.add("cancelled", now.cancelled);
  out.add("stalls", now.stalls_broken + now.slots_reclaimed);
  out.add("bypassed", bypassed.load(RELAXED));
  out.add("queue_time_us", total_us(now.queued_times));
  out.add("queue_wait_p50_us", now.queued_times.p50_ns / 1000);
  out.add("queue_wait_p99_us", now.queued_times.p99_ns / 1000);
  out.add("queue_wait_max_us", now.queued_times.max_ns / 1000);
  for (int kind = 0; kind < FLIFO_WAIT_KINDS; kind++) out.add(WAITS[kind], total_us(now.wait_times[kind]));
  return out.length;
}

void open() {
  level = "statements";
  bypassed.store(0, RELAXED);
  refused.store(0, RELAXED);
  is_settled = false;
}

void set_level(const char *is) { level = is; }
void count_bypass() { bypassed.fetch_add(1, RELAXED); }
void count_refusal() { refused.fetch_add(1, RELAXED); }

void warn_if_all_bypass() {
  if (is_settled || bypassed.load(RELAXED) < WARN_FROM) return;
  is_settled = true;
  flifo_snapshot_t now;
  if (take_snapshot(now) && *note(now) != '\0')
    server::warn(server::ALL_BYPASS);
}

}  // namespace flifo::status
