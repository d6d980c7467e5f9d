// SPDX-License-Identifier: GPL-2.0-only

#include "rowlocks.h"

#include <algorithm>
#include <cmath>

namespace flifo::rowlocks {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// Owners are idle for so long, on average: far longer than a client on the same machine takes between two statements. One row that
// such clients hand on is handed on fastest while few wait for it.
constexpr microseconds IDLES_LONG{500};
// One that is idle for longer tells no more than this: there are transactions that have nothing to do with the rows in question.
constexpr microseconds IDLES_MOST = 4 * IDLES_LONG;
// An average of so many, and of those so long ago at most.
constexpr int AVERAGED = 32;
constexpr milliseconds REMEMBERED{1000};

// A release looks at each that waits on the same page, and for each at those before it: 1.3 ns for a pair, by what a stock MariaDB
// 10.11 does with 1024 waiters for 100 rows. That shall take no more than an eighth of a processor: pairs a second.
constexpr double PAIRS_MAX = 1e8;
constexpr unsigned ROOM_MIN = 16, ROOM_MAX = 4096;
constexpr milliseconds MEASURED_FOR{10};

// Who waits for a row in its place. Sequentially consistent, both: each side counts itself first, and then looks for the other.
std::atomic<unsigned> waiting_inside{0};
std::atomic<unsigned> holders_queued{0};

// What is expected, all of these: they guard nothing, so relaxed, and an update that another overwrites is lost.
std::atomic<Clock::duration> idles{Clock::duration{0}};
std::atomic<Clock::time_point> idled_last{Clock::time_point{}};
std::atomic<unsigned> room{ROOM_MIN};
// All who wait for rows.
std::atomic<unsigned> waiting{0};
std::atomic<unsigned long long> released{0};

constexpr auto RELAXED = std::memory_order_relaxed;

// Whether one more may wait without a place.
bool lets_wait_outside() {
  return idles.load(RELAXED) >= IDLES_LONG && waiting.load(RELAXED) <= room.load(RELAXED) &&
         Clock::now() - idled_last.load(RELAXED) < REMEMBERED;
}

}  // namespace

void wait_begins(Connection &connection) {
  connection.waits_for_row.store(true, RELAXED);
  waiting.fetch_add(1, RELAXED);
  waiting_inside.fetch_add(1);
  // In the queue there may be the one it waits for. For good: within its turn an exit may leave the place free for it to come back,
  // and the holder in the queue.
  if (holders_queued.load() != 0 || lets_wait_outside())
    connection.gave_up_place = flifo_exit_for_good(connection.session) == FLIFO_OK;
  if (connection.gave_up_place) waiting_inside.fetch_sub(1);
}

void wait_ends(Connection &connection) {
  if (!connection.waits_for_row.load(RELAXED)) return;
  connection.waits_for_row.store(false, RELAXED);
  waiting.fetch_sub(1, RELAXED);
  released.fetch_add(1, RELAXED);
  if (!connection.gave_up_place) {
    waiting_inside.fetch_sub(1);
    return;
  }
  // It never queues: it may have got the lock, and others wait for it now.
  flifo_enter_past_limit(connection.session);
  connection.gave_up_place = false;
}

bool holder_must_enter() {
  holders_queued.fetch_add(1);
  if (waiting_inside.load() == 0) return false;
  holders_queued.fetch_sub(1);
  return true;
}

void holder_came_out() { holders_queued.fetch_sub(1); }

void owner_idles(Connection &connection) {
  if (waiting.load(RELAXED) != 0) connection.idle_since = Clock::now();
}

void owner_is_back(Connection &connection) {
  if (connection.idle_since == Clock::time_point{}) return;
  const Clock::time_point now = Clock::now();
  const Clock::duration average = idles.load(RELAXED);
  const Clock::duration idled = std::min<Clock::duration>(now - connection.idle_since, IDLES_MOST);
  idles.store(average + (idled - average) / AVERAGED, RELAXED);
  idled_last.store(now, RELAXED);
  connection.idle_since = {};
}

void measure() {
  static Clock::time_point since;
  static unsigned long long released_then;
  const Clock::time_point now = Clock::now();
  const Clock::duration passed = now - since;
  if (passed < MEASURED_FOR) return;
  const unsigned long long released_now = released.load(RELAXED);
  const double a_second = (released_now - released_then) / std::chrono::duration<double>(passed).count();
  const double most = std::sqrt(PAIRS_MAX / (a_second + 1));
  // Of a time in which nobody looked nothing is known.
  if (passed < 10 * MEASURED_FOR)
    room.store(most > ROOM_MAX ? ROOM_MAX : most < ROOM_MIN ? ROOM_MIN : static_cast<unsigned>(most), RELAXED);
  since = now;
  released_then = released_now;
}

unsigned waiters() { return waiting.load(RELAXED); }

}  // namespace flifo::rowlocks
