// SPDX-License-Identifier: GPL-2.0-only

#include "rowlocks.h"

#include "connection.h"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace flifo::rowlocks {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds, std::chrono::milliseconds;

// A mean idle time above this counts as idle. A client on the same machine takes far less between two statements, and a row
// that such clients pass on moves fastest while few wait for it.
constexpr microseconds IDLE_LONG{500};
// Longer times are capped: some transactions have nothing to do with the rows in question.
constexpr microseconds IDLE_MAX = 4 * IDLE_LONG;
// The mean covers this many samples, and is void after this time without one.
constexpr int SAMPLES = 32;
constexpr milliseconds MEAN_IS_VALID_FOR{1000};

// A grant examines each waiter of a page, and for each the waiters before it: 1.3 ns a pair was measured with 1,024 waiters
// for 100 rows. This many pairs a second take an eighth of a CPU.
constexpr double PAIRS_PER_S_MAX = 1e8;
constexpr unsigned WITHOUT_SLOT_MIN = 16, WITHOUT_SLOT_MAX = 4096;
constexpr milliseconds MEASURED_FOR{10};

// Both sequentially consistent: each side counts itself first, then looks for the other.
std::atomic<unsigned> waiting_in_slot{0};
std::atomic<unsigned> holders_queued{0};

// Estimates. They guard nothing, so they are relaxed, and a lost update does no harm.
std::atomic<Clock::duration> mean_idle{Clock::duration{0}};
std::atomic<Clock::time_point> last_idle{Clock::time_point{}};
std::atomic<unsigned> without_slot_max{WITHOUT_SLOT_MIN};
std::atomic<unsigned> waiting{0};
std::atomic<unsigned long long> granted{0};

constexpr auto RELAXED = std::memory_order_relaxed;

// Whether one more may wait without a slot, because owners are idle.
bool may_wait_without_slot() {
  return mean_idle.load(RELAXED) >= IDLE_LONG && waiting.load(RELAXED) <= without_slot_max.load(RELAXED) &&
         Clock::now() - last_idle.load(RELAXED) < MEAN_IS_VALID_FOR;
}

}  // namespace

void begin_wait(Connection &connection) {
  State &state = connection.row_lock;
  waiting.fetch_add(1, RELAXED);
  waiting_in_slot.fetch_add(1);
  state.is_waiting = true;
  // The time slice ends, too: otherwise the slot could be reserved for this session while the holder queues.
  if (holders_queued.load() != 0 || may_wait_without_slot())
    state.released_slot = flifo_exit_ending_slice(connection.session) == FLIFO_OK;
  if (state.released_slot) waiting_in_slot.fetch_sub(1);
}

void end_wait(Connection &connection) {
  State &state = connection.row_lock;
  if (!state.is_waiting) return;
  state.is_waiting = false;
  waiting.fetch_sub(1, RELAXED);
  granted.fetch_add(1, RELAXED);
  if (!state.released_slot) {
    waiting_in_slot.fetch_sub(1);
    return;
  }
  state.released_slot = false;
  // By force: it may have the lock now, and others wait for it.
  flifo_enter_forced(connection.session);
}

bool must_admit_holder() {
  holders_queued.fetch_add(1);
  if (waiting_in_slot.load() == 0) return false;
  holders_queued.fetch_sub(1);
  return true;
}

void holder_left_queue() { holders_queued.fetch_sub(1); }

void begin_idle(Connection &connection) {
  if (waiting.load(RELAXED) != 0) connection.row_lock.idle_since = Clock::now();
}

void end_idle(Connection &connection) {
  Clock::time_point &since = connection.row_lock.idle_since;
  if (since == Clock::time_point{}) return;
  const Clock::time_point now = Clock::now();
  const Clock::duration mean = mean_idle.load(RELAXED);
  const Clock::duration idle = std::min<Clock::duration>(now - since, IDLE_MAX);
  mean_idle.store(mean + (idle - mean) / SAMPLES, RELAXED);
  last_idle.store(now, RELAXED);
  since = {};
}

void cancel_idle(Connection &connection) { connection.row_lock.idle_since = {}; }

void measure() {
  static Clock::time_point since;
  static unsigned long long granted_then;
  const Clock::time_point now = Clock::now();
  const Clock::duration passed = now - since;
  if (passed < MEASURED_FOR) return;
  const unsigned long long granted_now = granted.load(RELAXED);
  const double per_s = static_cast<double>(granted_now - granted_then) / std::chrono::duration<double>(passed).count();
  const double most = std::sqrt(PAIRS_PER_S_MAX / (per_s + 1));
  // Skip the sample if the watcher was not scheduled in time.
  if (passed < 10 * MEASURED_FOR)
    without_slot_max.store(static_cast<unsigned>(std::clamp<double>(most, WITHOUT_SLOT_MIN, WITHOUT_SLOT_MAX)), RELAXED);
  since = now;
  granted_then = granted_now;
}

unsigned waiters() { return waiting.load(RELAXED); }

}  // namespace flifo::rowlocks
