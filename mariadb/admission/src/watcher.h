// A thread of the plugin's own that repeats one task at a fixed interval.
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
  // Runs `task` every `interval`, first after one interval. Returns false if the system has no thread left.
  template <class Task>
  bool start(std::chrono::milliseconds interval, Task task) {
    stopping = false;
    try {
      thread = std::thread([this, interval, task = std::move(task)] {
        std::unique_lock<std::mutex> lock(mutex);
        while (!stop_requested.wait_for(lock, interval, [this] { return stopping; })) task();
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
    stop_requested.notify_all();
    thread.join();
  }

 private:
  std::mutex mutex;
  std::condition_variable stop_requested;
  bool stopping = false;
  std::thread thread;
};

}  // namespace flifo

#endif
