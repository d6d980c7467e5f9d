// A connection that is about to sleep until its client's next statement lets others run first.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// A client on the same machine waits for the processor that the connection has. If the connection sleeps, the client has to wake it,
// often on another processor, which is interrupted for it; and who wakes is placed anew, away from its client and from what it has in
// the caches. If it yields instead, the next statement is mostly there when it runs again, and neither has moved. Soon hardly any yields,
// since a client that is on the same processor runs as soon as it is sent its reply, and has answered before the connection looks.
//
// But a client that is on another processor stays there, too, and each has to interrupt the other's. Who has yielded before each of the
// last statements sleeps once, so that the kernel places it anew: next to who wakes it.
//
// Where clients are far away, or think, that is in vain, and not for nothing: who yields gets less of the processors than those who do
// not. So who has slept for long after a yield goes to sleep without one the next time, and twice as often each time it was in vain
// again.

#ifndef FLIFO_YIELDING_H
#define FLIFO_YIELDING_H

#include <atomic>
#include <chrono>

namespace flifo {

struct YieldCounts {
  // Yields; and those of them after which the connection slept for long.
  unsigned long long made = 0, in_vain = 0;
};

// Of one connection. But for the counts, only the thread that serves it touches it.
class Yields {
 public:
  using Clock = std::chrono::steady_clock;

  // A client's statement begins, or a packet of several.
  void begins() { statements++; }

  // It is about to sleep until its client's next statement: whether it is to yield before that. To be asked once for each sleep.
  bool decides_to_yield();

  // It has yielded, until `since`, and its sleep after that is over, if it slept at all.
  void has_slept(Clock::time_point since);

  // Another client's connection begins.
  void begin_anew();

  // They are of all connections that this one was so far.
  void add_to(YieldCounts &all) const;
  void forget_counts();

 private:
  // Only the thread that serves it adds to them.
  std::atomic<unsigned long long> made{0}, in_vain{0};
  // So many yields are still left out; and were to be, the last time.
  unsigned skips_left = 0, skips_last = 0;
  // How many statements have begun, and had when it was about to sleep last. Before so many of them, one after the other, it has yielded.
  unsigned statements = 0, statements_at_last = 0, in_a_row = 0;
};

}  // namespace flifo

#endif
