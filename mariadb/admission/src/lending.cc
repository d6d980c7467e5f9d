// SPDX-License-Identifier: GPL-2.0-only

#include "lending.h"

#include "queueing.h"
#include "rowlocks.h"
#include "settings.h"
#include "sleepers.h"
#include "watcher.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>

namespace flifo::lending {

std::atomic<unsigned long long> lent{0}, lent_now{0};

// A thread of the server. Never given back to the system, only used again. On a cache line of its own: it is written by its thread
// alone, at each statement.
struct alignas(CACHE_LINE) Thread {
  std::atomic<int> tid{0};
  std::atomic<const Connection *> serves{nullptr};
  Thread *next_free = nullptr;
};

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;
using std::chrono::milliseconds;

// A look costs some microseconds for each one inside. Most sleep for less than the time between two of those that are SOON.
constexpr microseconds SELDOM{10000}, SOON{300}, SOON_IF_BUSY{1200};
// Those whose place is lent are mostly gone before they are seen to run again.
constexpr microseconds LENT_EVERY{2000};
// So many times as long as the last look took, at least: there may be hundreds that sleep.
constexpr int LOOK_SHARE = 4;
// A hot row is handed on in microseconds, and whoever waits for it shall keep others out. One that takes so long has an owner that
// is idle, or waits for a disk.
constexpr milliseconds ROW_WAIT_IS_LONG{5};

// How many are let in at once at most, if all inside sleep.
constexpr unsigned BURST_MAX = 256;

// Who is inside, for the one that looks: so that it need not look at a thousand connections. As many of the slots are in use as had
// to be so far. Who finds no slot is not looked at.
constexpr unsigned SLOTS = 4096, PROBES = 8;
std::atomic<Connection *> slots[SLOTS];
std::atomic<unsigned> slots_used{256};
std::atomic<unsigned> without_slot{0};

std::mutex free_mutex;
Thread *free_list;

// This thread's record, given back when it ends.
class Mine {
 public:
  Thread *get() {
    if (thread != nullptr) return thread;
    {
      std::lock_guard<std::mutex> guard(free_mutex);
      if ((thread = free_list) != nullptr) free_list = thread->next_free;
    }
    if (thread == nullptr) thread = new (std::nothrow) Thread;
    if (thread != nullptr) thread->tid.store(static_cast<int>(syscall(SYS_gettid)), std::memory_order_relaxed);
    return thread;
  }

  ~Mine() {
    if (thread == nullptr) return;
    thread->serves.store(nullptr, std::memory_order_relaxed);
    std::lock_guard<std::mutex> guard(free_mutex);
    thread->next_free = free_list;
    free_list = thread;
  }

 private:
  Thread *thread = nullptr;
};

thread_local Mine mine;

Sleepers sleepers;

// Whether a connection's thread sleeps; then how long it has run so far in its life, which tells whether it has since.
bool is_asleep(const Connection &connection, unsigned long long &run_ns) {
  run_ns = 0;
  const Thread *thread = connection.thread.load(std::memory_order_acquire);
  if (thread == nullptr) return false;
  // In a pool of threads the connection waits without one.
  if (thread->serves.load(std::memory_order_relaxed) != &connection) return true;
  return sleepers.is_asleep(thread->tid.load(std::memory_order_relaxed), run_ns);
}

// What is lent: how a look is made.
struct Rules {
  Clock::time_point now;
  // Somebody queues: whose place is not lent yet may be lent.
  bool lends_more;
  // The places of sleepers are, and those that are lent are looked at again.
  bool sleepers, at_lent;
  // The places of those who were seen inside so long ago are; zero: they are not.
  milliseconds long_after;
};

// What a look has found.
struct Found {
  // Somebody sleeps who did not at the look before, and is no longer waited for than the next look.
  bool suspects = false;
  // Somebody who was looked at does not sleep.
  bool awake = false;
  // A sleeper's place was lent.
  bool lends = false;
  // Places that are lent, and those of them that are sleepers'.
  unsigned lent = 0, asleep = 0;
  // Places are held by some that do not sleep, as far as is known.
  bool runs = false;
};

flifo_canceller_t lender_of(const Connection &connection) {
  return {connection.lender.load(std::memory_order_acquire)};
}

// Lends the place of this stay. False if it cannot be lent, or is.
bool lend(Connection &connection, unsigned stay) {
  if (flifo_lend_place(lender_of(connection)) != FLIFO_OK) return false;
  if (connection.stay.load(std::memory_order_acquire) == stay) return true;
  // It has left since it was looked at, and come again.
  flifo_take_back_place(lender_of(connection));
  return false;
}

void look_at(Connection &connection, const Rules &rules, Found &found) {
  Connection::Seen &seen = connection.seen;
  const unsigned stay = connection.stay.load(std::memory_order_acquire);
  if (seen.stay != stay) {
    // What was lent may be the place of the stay that had just begun.
    if (seen.is_lent) flifo_take_back_place(lender_of(connection));
    seen = {};
    seen.stay = stay;
    seen.first = rules.now;
  }
  const Wait wait = connection.wait.load(std::memory_order_relaxed);
  const bool is_long = connection.long_stay.load(std::memory_order_relaxed) == stay;
  if (wait == Wait::GaveUp) {
    // And took it back before, if it was lent.
    seen.is_lent = seen.sleeps = false;
    if (is_long)
      found.lent++;
    else
      seen.first = rules.now;
    return;
  }
  if (is_long && rules.long_after != milliseconds{0}) {
    // Until it leaves, whether it runs or not.
    seen.is_lent = true;
    found.lent++;
    return;
  }
  if (!seen.is_lent && !rules.lends_more) {
    found.runs = true;
    return;
  }
  if (rules.long_after != milliseconds{0} && wait == Wait::None && rules.now - seen.first >= rules.long_after) {
    // Before: when a wait ends, `ends_wait` lends what the end brings back.
    connection.long_stay.store(stay, std::memory_order_relaxed);
    if (!seen.is_lent && lend(connection, stay)) lent.fetch_add(1, std::memory_order_relaxed);
    seen.is_lent = true;
    found.lent++;
    return;
  }
  if (seen.is_lent && !rules.at_lent && rules.sleepers) {
    found.lent++;
    found.asleep++;
    return;
  }
  unsigned long long run_ns = 0;
  const bool sleeps = rules.sleepers && is_asleep(connection, run_ns);
  if (seen.is_lent) {
    if (sleeps && run_ns == seen.run_ns) {
      found.lent++;
      found.asleep++;
      return;
    }
    // It may have left meanwhile, and taken it back itself.
    flifo_take_back_place(lender_of(connection));
    connection.long_stay.store(0, std::memory_order_relaxed);
    seen.is_lent = false;
  }
  if (!sleeps || !seen.sleeps || seen.run_ns != run_ns) {
    seen.sleeps = sleeps;
    seen.run_ns = run_ns;
    seen.since = rules.now;
    found.suspects |= sleeps;
    found.awake |= !sleeps;
    found.runs = true;
    return;
  }
  const bool waits_for_row = connection.waits_for_row.load(std::memory_order_relaxed);
  // What else the server tells keeps its place because `flifo_wait_mask` or `flifo_io_depth` says so.
  if (waits_for_row ? rules.now - seen.since < ROW_WAIT_IS_LONG : wait == Wait::Keeps) {
    found.runs = true;
    return;
  }
  if (!lend(connection, stay)) return;
  lent.fetch_add(1, std::memory_order_relaxed);
  seen.is_lent = found.lends = true;
  found.lent++;
  found.asleep++;
}

// Whether one of the first slots is the connection's now.
bool takes_slot(Connection &connection, unsigned used) {
  // Neighbours, which often are inside together, have theirs on different cache lines. All slots are somebody's first one: there is a
  // power of two of them.
  constexpr unsigned APART = CACHE_LINE / sizeof slots[0] + 1;
  static_assert(APART % 2 == 1);
  const auto first = static_cast<unsigned>(reinterpret_cast<uintptr_t>(&connection) / sizeof connection * APART);
  for (unsigned probe = 0; probe < PROBES; probe++) {
    std::atomic<Connection *> &slot = slots[(first + probe) % used];
    Connection *nobody = nullptr;
    if (!slot.compare_exchange_strong(nobody, &connection, std::memory_order_release, std::memory_order_relaxed))
      continue;
    connection.slot = &slot;
    return true;
  }
  return false;
}

Found look(const Rules &rules) {
  Found found;
  found.runs = without_slot.load(std::memory_order_relaxed) != 0;
  const unsigned used = slots_used.load(std::memory_order_relaxed);
  for (unsigned slot = 0; slot < used; slot++)
    if (Connection *connection = slots[slot].load(std::memory_order_acquire)) look_at(*connection, rules, found);
  lent_now.store(found.lent, std::memory_order_relaxed);
  return found;
}

// What is remembered from one look to the next.
class Looks {
 public:
  // When to look again.
  Watcher::Pause operator()() {
    rowlocks::measure();
    const bool lends = settings::lends_sleepers();
    const milliseconds long_after = settings::stall_after();
    const bool any_lent = lent_now.load(std::memory_order_relaxed) != 0;
    const bool lends_more = (lends || long_after != milliseconds{0}) && queueing::length() != 0;
    if (!any_lent && !lends_more) return SELDOM;
    const Clock::time_point now = Clock::now();
    const bool at_lent = now - looked_at_lent >= LENT_EVERY;
    if (at_lent) looked_at_lent = now;
    const Found found = look({now, lends_more, lends, at_lent, long_after});
    if (found.lends) lent_last = now;
    // If all sleep, those that come in next likely will: then one look after the other would let in too few for whatever they all
    // wait for together, such as one sync of the log.
    const bool all_sleep = !found.runs && found.asleep != 0;
    burst = all_sleep ? std::min(2 * burst + 1, BURST_MAX) : burst / 2;
    if (all_sleep && lends) flifo_admit_past_limit(settings::admission(), burst);
    Watcher::Pause pause = found.asleep != 0 ? LENT_EVERY : SELDOM;
    // The processors may be busy with the work of others: if all here sleep, their places are missed.
    if (found.suspects || now - lent_last < SELDOM)
      pause = found.awake && sleepers.processors_are_busy() ? SOON_IF_BUSY : SOON;
    // A look in which this thread was kept from its processor is not that long.
    return std::max(pause, std::min<Watcher::Pause>(LOOK_SHARE * (Clock::now() - now), SELDOM));
  }

 private:
  Clock::time_point looked_at_lent{}, lent_last{};
  unsigned burst = 0;
};

Watcher watcher;

}  // namespace

void serves(Connection &connection) {
  Thread *thread = mine.get();
  if (thread != nullptr) thread->serves.store(&connection, std::memory_order_relaxed);
  connection.thread.store(thread, std::memory_order_release);
}

void comes_in(Connection &connection) {
  stays_anew(connection);
  unsigned used = slots_used.load(std::memory_order_relaxed);
  while (!takes_slot(connection, used)) {
    if (used == SLOTS) {
      connection.has_no_slot = true;
      without_slot.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    // Relaxed: who looks meanwhile finds the rest at the next look. If another was faster, `used` is what that one made of it.
    if (slots_used.compare_exchange_strong(used, 2 * used, std::memory_order_relaxed)) used *= 2;
  }
}

void goes_out(Connection &connection) {
  if (connection.has_no_slot) without_slot.fetch_sub(1, std::memory_order_relaxed);
  connection.has_no_slot = false;
  if (connection.slot == nullptr) return;
  connection.slot->store(nullptr, std::memory_order_release);
  connection.slot = nullptr;
}

void stays_anew(Connection &connection) {
  connection.stay.store(connection.stay.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void ends_wait(Connection &connection) {
  if (connection.long_stay.load(std::memory_order_relaxed) == connection.stay.load(std::memory_order_relaxed))
    flifo_lend_place(lender_of(connection));
}

bool start_watching() {
  lent.store(0, std::memory_order_relaxed);
  return watcher.start(SELDOM, Looks());
}

void stop_watching() {
  watcher.stop();
  sleepers.close_all();
}

}  // namespace flifo::lending
