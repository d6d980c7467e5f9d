// Whether threads of this process sleep, as /proc has it.
//
// SPDX-License-Identifier: GPL-2.0-only

#ifndef FLIFO_SLEEPERS_H
#define FLIFO_SLEEPERS_H

namespace flifo {

// Looks at threads; for one thread. The files of those looked at last stay open: to open and close one costs more than to read it.
class Sleepers {
 public:
  Sleepers() = default;
  Sleepers(const Sleepers &) = delete;
  Sleepers &operator=(const Sleepers &) = delete;
  ~Sleepers() { close_all(); }

  // Whether this thread sleeps; then for how long it has run in its life, ns, which tells whether it has since. False if there is
  // none, or it cannot be looked at.
  bool is_asleep(int tid, unsigned long long &run_ns);

  // Whether more threads of the whole machine can run than it has processors, besides the one that asks.
  bool processors_are_busy();

  void close_all();

 private:
  static constexpr unsigned THREADS = 64;
  struct Files {
    int tid = 0, stat = -1, schedstat = -1;
    void close();
  } files[THREADS];
  int loadavg = -1;
};

}  // namespace flifo

#endif
