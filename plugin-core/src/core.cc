// SPDX-License-Identifier: GPL-2.0-only

#include "core.h"

#include "connection.h"
#include "dormancy.h"
#include "queueing.h"
#include "rowlocks.h"
#include "server.h"
#include "settings.h"
#include "status.h"

#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

namespace flifo::core {
namespace {

// A killed statement stays in the queue at most this long; usually the server wakes the watcher at once.
constexpr std::chrono::milliseconds WATCHED_EVERY{20};

std::thread watcher;
std::atomic<bool> stopping;

void watch() {
  while (!stopping.load(std::memory_order_relaxed)) {
    server::wait_for_kill(WATCHED_EVERY);
    rowlocks::measure();
    queueing::cancel_killed();
    dormancy::update(settings::admission());
    status::warn_if_all_bypass();
  }
}

// False if the system has no thread left.
bool start_watcher() {
  stopping = false;
  try {
    watcher = std::thread(watch);
  } catch (const std::system_error &) {
    return false;
  }
  return true;
}

}  // namespace

const char *start() {
  if (flifo_abi_check(FLIFO_ABI_VERSION) != FLIFO_OK) return flifo_last_error();
  if (const char *wrong = settings::open()) return wrong;
  status::open();
  if (!start_watcher()) {
    settings::close();
    return "the system cannot start another thread; raise its limit (ulimit -u, pids.max), then install again";
  }
  connections::open(settings::admission());
  return nullptr;
}

void stop() {
  stopping = true;
  watcher.join();
  dormancy::close();
  connections::close();
  settings::close();
}

}  // namespace flifo::core
