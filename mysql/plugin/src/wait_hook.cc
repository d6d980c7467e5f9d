// SPDX-License-Identifier: GPL-2.0-only

#include "wait_hook.h"

#include "events.h"
#include "exports.h"
#include "lifecycle.h"
#include "thread.h"

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace flifo::wait_hook {
namespace {

std::atomic<const abi::WaitFunctions *> behind{nullptr};
// The server's pointer leads to our functions, perhaps through another plugin's.
bool is_linked;
std::atomic<bool> is_on{false};

flifo_wait_kind_t kind_of(int server_kind) {
  switch (server_kind) {
    case abi::WAIT_ROW_LOCK: return FLIFO_WAIT_ROW_LOCK;
    case abi::WAIT_GLOBAL_LOCK:
    case abi::WAIT_METADATA_LOCK:
    case abi::WAIT_TABLE_LOCK:
    case abi::WAIT_USER_LOCK: return FLIFO_WAIT_TABLE_LOCK;
    case abi::WAIT_DISK: return FLIFO_WAIT_DISK;
    case abi::WAIT_GROUP_COMMIT:
    case abi::WAIT_SYNC: return FLIFO_WAIT_LOG_SYNC;
    case abi::WAIT_SLEEP: return FLIFO_WAIT_SLEEP;
    default: return FLIFO_WAIT_USER;
  }
}

// The server does not pass its THD for some kinds of wait. Null in a thread that serves no connection.
server::Thread *thread_in_wait(THD *thd) {
  if (!is_on.load(std::memory_order_relaxed)) return nullptr;
  return thread_of(thd == nullptr ? exports::current() : thd);
}

void begin(THD *thd, int kind) {
  begin_behind(thd, kind);
  if (server::Thread *thread = thread_in_wait(thd)) lifecycle::on_wait_begin(thread, kind_of(kind));
}

void end(THD *thd) {
  if (server::Thread *thread = thread_in_wait(thd)) events::on_wait_end(thread);
  end_behind(thd);
}

// Signalled when a connection is killed.
std::mutex kills;
std::condition_variable killed;

// The server calls this in the thread that kills a connection.
void on_kill(THD *thd) {
  {
    const std::lock_guard<std::mutex> guard(kills);
    killed.notify_all();
  }
  const abi::WaitFunctions *next = behind.load(std::memory_order_acquire);
  if (next != nullptr && next->on_kill != nullptr) next->on_kill(thd);
}

constexpr abi::WaitFunctions OURS{begin, end, on_kill};

}  // namespace

bool hook() {
  const abi::WaitFunctions **at = exports::wait_functions();
  if (at == nullptr) return false;
  if (!is_linked) {
    behind.store(__atomic_load_n(at, __ATOMIC_ACQUIRE), std::memory_order_release);
    __atomic_store_n(at, &OURS, __ATOMIC_RELEASE);
    is_linked = true;
  }
  is_on.store(true, std::memory_order_release);
  return true;
}

void unhook() {
  is_on.store(false, std::memory_order_release);
  const abi::WaitFunctions **at = exports::wait_functions();
  if (!is_linked || at == nullptr) return;
  const abi::WaitFunctions *expected = &OURS;
  // `behind` stays: a thread may be about to call our functions.
  if (__atomic_compare_exchange_n(at, &expected, behind.load(std::memory_order_acquire), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    is_linked = false;
}

void begin_behind(THD *thd, int kind) {
  const abi::WaitFunctions *next = behind.load(std::memory_order_acquire);
  if (next != nullptr && next->begin != nullptr) next->begin(thd, kind);
}

void end_behind(THD *thd) {
  const abi::WaitFunctions *next = behind.load(std::memory_order_acquire);
  if (next != nullptr && next->end != nullptr) next->end(thd);
}

void wait_for_kill(std::chrono::milliseconds most) {
  std::unique_lock<std::mutex> guard(kills);
  killed.wait_for(guard, most);
}

}  // namespace flifo::wait_hook
