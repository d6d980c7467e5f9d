// SPDX-License-Identifier: GPL-2.0-only

#include "status.h"

#include "rowlocks.h"
#include "settings.h"
#include "lending.h"
#include "statement.h"

#include <cstddef>
#include <cstring>

namespace flifo::status {

const char *level = "";

namespace {

// The variables of one kind of time: `_count`, and in microseconds.
struct Times {
  unsigned long long count, mean_us, p50_us, p95_us, p99_us, max_us;
};

// What one SHOW STATUS shows. It is read by the thread that fills it, before that thread fills it again.
struct Shown {
  flifo_snapshot_t snapshot;
  YieldCounts yields;
  unsigned long long lent, lent_now, bypassed, refused_timeout, refused_queue_full;
  uint32_t lock_waiters;
  const char *policy;
  char line[1152];
  Times queued, resumed, woken, inside, waits[FLIFO_WAIT_KINDS];
  // Each name and value, and one that ends the list.
  st_mysql_show_var variables[32 + 6 * (4 + FLIFO_WAIT_KINDS) + 1];
  char names[6 * (4 + FLIFO_WAIT_KINDS)][32];
};

Times in_us(const flifo_times_t &times) {
  return {times.count, times.mean_ns / 1000, times.p50_ns / 1000, times.p95_ns / 1000, times.p99_ns / 1000,
          times.max_ns / 1000};
}

class List {
 public:
  explicit List(Shown &shown) : shown(shown) {}

  void add(const char *name, void *value, enum_mysql_show_type type) {
    shown.variables[length++] = {name, value, type};
  }
  void add(const char *name, uint32_t &value) { add(name, &value, SHOW_UINT); }
  void add(const char *name, unsigned long long &value) { add(name, &value, SHOW_ULONGLONG); }
  void add(const char *name, uint64_t &value) { add(name, &value, SHOW_ULONGLONG); }
  void add(const char *name, const char *text) { add(name, const_cast<char *>(text), SHOW_CHAR); }

  void add(const char *name, Times &times) {
    add(name, "_count", times.count);
    add(name, "_mean_us", times.mean_us);
    add(name, "_p50_us", times.p50_us);
    add(name, "_p95_us", times.p95_us);
    add(name, "_p99_us", times.p99_us);
    add(name, "_max_us", times.max_us);
  }

  void end() { add(nullptr, nullptr, SHOW_UNDEF); }

 private:
  void add(const char *name, const char *what, unsigned long long &value) {
    char *whole = shown.names[names++];
    snprintf(whole, sizeof *shown.names, "%s%s", name, what);
    add(whole, value);
  }

  Shown &shown;
  size_t length = 0;
  size_t names = 0;
};

constexpr const char *WAITS[FLIFO_WAIT_KINDS] = {"wait_row_lock", "wait_table_lock", "wait_disk", "wait_network",
                                                 "wait_log_sync", "wait_sleep",      "wait_user"};

void fill(Shown &shown) {
  flifo_snapshot_t &now = shown.snapshot;
  memset(&now, 0, sizeof now);
  flifo_snapshot(settings::admission(), &now, sizeof now);
  shown.bypassed = statement::bypassed.load(std::memory_order_relaxed);
  shown.yields = connections::yields();
  shown.lent = lending::lent.load(std::memory_order_relaxed);
  shown.lent_now = lending::lent_now.load(std::memory_order_relaxed);
  // The scheduler refuses also transactions, which then come in past the limit.
  shown.refused_timeout = statement::refused_timeout.load(std::memory_order_relaxed);
  shown.refused_queue_full = statement::refused_queue_full.load(std::memory_order_relaxed);
  // Those who gave up their places, which the scheduler counts, and those who wait in them.
  shown.lock_waiters = now.lock_waiters + rowlocks::waiters();
  shown.policy = flifo_policy_name(now.policy);
  shown.line[0] = '\0';
  flifo_status_text(settings::admission(), shown.line, sizeof shown.line, nullptr);
  shown.queued = in_us(now.queued_times);
  shown.resumed = in_us(now.resumed_times);
  shown.woken = in_us(now.woken_to_running_times);
  shown.inside = in_us(now.inside_times);
  for (int kind = 0; kind < FLIFO_WAIT_KINDS; kind++) shown.waits[kind] = in_us(now.wait_times[kind]);

  List list(shown);
  list.add("level", level);
  list.add("thread_concurrency", now.thread_concurrency);
  list.add("policy", shown.policy == nullptr ? "" : shown.policy);
  list.add("inside", now.inside);
  list.add("pending", now.pending);
  list.add("queued", now.queued);
  list.add("lock_waiters", shown.lock_waiters);
  list.add("disk_waits", now.disk_waits);
  list.add("inside_max", now.inside_max);
  list.add("pending_max", now.pending_max);
  list.add("queued_max", now.queued_max);
  list.add("entered_at_once", now.entered_at_once);
  list.add("entered_by_ticket", now.entered_by_ticket);
  list.add("entered_by_lifo", now.entered_by_lifo);
  list.add("entered_from_queue", now.entered_from_queue);
  list.add("entered_by_force", now.entered_by_force);
  list.add("handed_on", now.handed_on);
  list.add("refused_timeout", shown.refused_timeout);
  list.add("refused_queue_full", shown.refused_queue_full);
  list.add("cancelled", now.cancelled);
  list.add("stalls_broken", now.stalls_broken);
  list.add("promoted", now.promoted);
  list.add("queued_owing", now.queued_owing);
  list.add("anticipated", now.anticipated);
  list.add("lent", shown.lent);
  list.add("lent_now", shown.lent_now);
  list.add("bypassed", shown.bypassed);
  list.add("yields", shown.yields.made);
  list.add("yields_in_vain", shown.yields.in_vain);
  list.add("state_line", shown.line);
  list.add("queued", shown.queued);
  list.add("resumed", shown.resumed);
  list.add("woken", shown.woken);
  list.add("inside", shown.inside);
  for (int kind = 0; kind < FLIFO_WAIT_KINDS; kind++) list.add(WAITS[kind], shown.waits[kind]);
  list.end();
}

int show(MYSQL_THD, st_mysql_show_var *variable, void *, system_status_var *, enum_var_type) {
  static thread_local Shown shown;
  fill(shown);
  variable->type = SHOW_ARRAY;
  variable->value = shown.variables;
  return 0;
}

}  // namespace

st_mysql_show_var variables[] = {
    // SHOW_FUNC: the server asks for it whatever the pattern of SHOW STATUS LIKE is.
    {"Flifo", reinterpret_cast<void *>(show), SHOW_FUNC},
    {nullptr, nullptr, SHOW_UNDEF},
};

}  // namespace flifo::status
