// SPDX-License-Identifier: GPL-2.0-only

#include "settings.h"

#include "dormancy.h"
#include "server.h"
#include "waits.h"

#include <strings.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <thread>

namespace flifo::settings {
namespace {

// Statements that a procedure runs on one slot before it queues again.
constexpr unsigned TICKETS = 5000;

flifo_admission_t scheduler;
std::atomic<bool> on{false};

// The CPUs this server may use when the plugin is loaded; at least one.
unsigned cpus() {
  static const unsigned number = std::max(1U, std::thread::hardware_concurrency());
  return number;
}

struct ConcurrencyTexts {
  char texts[AUTO + 1][5];

  ConcurrencyTexts() {
    for (unsigned value = 0; value <= AUTO; value++) {
      snprintf(texts[value], sizeof *texts, "%u", value);
      concurrency_names[value] = texts[value];
    }
    strcpy(texts[AUTO], "auto");
  }
} concurrency_texts;

constexpr flifo_policy_t POLICIES[] = {FLIFO_POLICY_NONE, FLIFO_POLICY_FIFO, FLIFO_POLICY_FLIFO, FLIFO_POLICY_QUANTUM};
static_assert(std::size(POLICIES) == POLICY_COUNT);

void fill(flifo_config_t &config) {
  const bool is_auto = values.thread_concurrency == AUTO;
  config.policy = POLICIES[values.policy];
  config.thread_concurrency =
      is_auto ? std::min(2 * cpus(), LIMIT_MAX) : static_cast<unsigned>(values.thread_concurrency);
  config.adaptive = is_auto;
  config.concurrency_tickets = TICKETS;
  config.wait_mask = waits::MASK;
  config.io_depth = values.io_depth;
  // Waiters keep their slots here, so the limit itself bounds them.
  config.lock_waiters_max = 0;
  config.queue_limit = values.max_queue;
  config.queue_timeout_ns = values.queue_timeout_ms * 1000000ULL;
  config.quantum_ns = values.quantum_us * 1000ULL;
  config.stall_limit_ns = values.stall_limit_ms * 1000000ULL;
  config.reserve_slots = values.reserve_slots != 0;
  on.store(config.thread_concurrency != 0, std::memory_order_relaxed);
}

// The index of the first of the names that equals the text in any case; `count` if there is none.
unsigned long find(const char *text, const char *const *names, unsigned long count) {
  unsigned long at = 0;
  while (at < count && strcasecmp(text, names[at]) != 0) at++;
  return at;
}

}  // namespace

Values values;
const char *concurrency_names[AUTO + 2];
const char *policy_names[POLICY_COUNT + 1] = {"none", "fifo", "flifo", "quantum", nullptr};

const char *parse_concurrency(const char *text, unsigned long &value) {
  const unsigned long known = find(text, concurrency_names, AUTO + 1);
  if (known > AUTO) return "auto or a number from 0 to 1023";
  value = known;
  return nullptr;
}

const char *parse_policy(const char *text, unsigned long &value) {
  const unsigned long known = find(text, policy_names, POLICY_COUNT);
  if (known == POLICY_COUNT) return "none, fifo, flifo or quantum";
  value = known;
  return nullptr;
}

const char *parse_switch(const char *text, char &value) {
  constexpr const char *NAMES[] = {"0", "off", "false", "1", "on", "true"};
  const unsigned long known = find(text, NAMES, std::size(NAMES));
  if (known == std::size(NAMES)) return "ON or OFF (1 or 0)";
  value = known >= std::size(NAMES) / 2;
  return nullptr;
}

const char *check(const Number &setting, long long value) {
  static thread_local char allowed[64];
  if (value < setting.min || value > setting.max) {
    snprintf(allowed, sizeof allowed, "a number from %u to %u", setting.min, setting.max);
    return allowed;
  }
  if (value == 0 || !setting.fails_statements || server::can_refuse()) return nullptr;
  return "0, since this server cannot fail a queued statement";
}

const char *open() {
  if ((values.queue_timeout_ms != 0 || values.max_queue != 0) && !server::can_refuse())
    return "flifo_queue_timeout and flifo_max_queue do not work with this server: set them to 0";
  flifo_config_t config;
  flifo_config_init(&config, sizeof config);
  fill(config);
  // The text is this thread's until its next call.
  return flifo_admission_new(&config, &scheduler) == FLIFO_OK ? nullptr : flifo_last_error();
}

void close() {
  on.store(false, std::memory_order_relaxed);
  flifo_admission_free(scheduler);
  scheduler = {};
}

const char *apply() {
  flifo_config_t config;
  // Before `open`, which reads all values.
  if (flifo_admission_config(scheduler, &config, sizeof config) != FLIFO_OK) return nullptr;
  fill(config);
  const bool is_done = flifo_reconfigure(scheduler, &config) == FLIFO_OK;
  // So that the next statement sees the setting.
  dormancy::wake(scheduler);
  return is_done ? nullptr : flifo_last_error();
}

flifo_admission_t admission() { return scheduler; }
bool is_on() { return on.load(std::memory_order_relaxed); }

}  // namespace flifo::settings
