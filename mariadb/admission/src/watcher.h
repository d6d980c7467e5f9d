// A thread of the plugin's own, which looks at something again and again.
//
// SPDX-License-Identifier: GPL-2.0-only

#ifndef FLIFO_WATCHER_H
#define FLIFO_WATCHER_H

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace flifo {

class Watcher {
 public:
  using Pause = std::chrono::steady_clock::duration;

  // Calls `look` again and again: first after `pause`, then each time after as long as it said. False if the system has no
  // thread left.
  template <class Look>
  bool start(Pause pause, Look look) {
    stopping = false;
    try {
      thread = std::thread([this, pause, look = std::move(look)]() mutable {
        std::unique_lock<std::mutex> lock(mutex);
        while (!stop_asked.wait_for(lock, pause, [this] { return stopping; })) pause = look();
      });
    } catch (const std::system_error &) {
      return false;
    }
    return true;
  }

  void stop() {
    {
      std::lock_guard<std::mutex> guard(mutex);
      stopping = true;
    }
    stop_asked.notify_all();
    thread.join();
  }

 private:
  std::mutex mutex;
  std::condition_variable stop_asked;
  bool stopping = false;
  std::thread thread;
};

}  // namespace flifo

#endif
