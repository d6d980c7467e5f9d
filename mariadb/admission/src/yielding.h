// A connection that is about to sleep until its client's next statement lets others run first.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// A client on the same machine waits for the processor that the connection has. If the connection sleeps, the client has to wake it,
// often on another processor, which is interrupted for it; and who wakes is placed anew, away from what it has in the caches, and from
// its client. If it yields instead, it is mostly its turn again when the next statement is there, and neither has moved.
//
// A yield is a request, and in vain where clients are far away or think: Linux 6.18 takes the rest of its time from who yields. So who
// has slept for long after one goes to sleep without the next few times, up to `WITHOUT_MAX`.

#ifndef FLIFO_YIELDING_H
#define FLIFO_YIELDING_H

#include <chrono>

namespace flifo {

// What one connection's yields were good for. Only the thread that serves it touches it.
struct Yields {
  // When the last one was over, while the connection sleeps after it.
  std::chrono::steady_clock::time_point since{};
  // So often it goes to sleep without, still; and so often the last time that it began to.
  unsigned without = 0, without_last = 0;
};

namespace yielding {

// The connection is about to sleep until its client's next statement.
void before_sleep(Yields &yields);

// Its sleep is over, if it slept at all.
void after_sleep(Yields &yields);

}  // namespace yielding
}  // namespace flifo

#endif
