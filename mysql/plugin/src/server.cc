// What the core asks of its server (server.h of the core), answered by MySQL.
//
// SPDX-License-Identifier: GPL-2.0-only

#include "server.h"

#include "exports.h"
#include "session.h"
#include "thread.h"
#include "variables.h"
#include "wait_hook.h"

namespace flifo::server {

unsigned long id(Thread *thread) { return exports::thread_id(thd_of(thread)); }
bool is_killed(Thread *thread) { return exports::is_killed(thd_of(thread)); }
// The server reports no wait for a client's command.
bool is_idle(Thread *) { return false; }

LockScope lock_scope(Thread *thread) {
  const long long options =
      exports::options(thd_of(thread), abi::OPTION_BEGIN | abi::OPTION_NOT_AUTOCOMMIT | abi::OPTION_TABLE_LOCK);
  Connection *connection = connections::find(thread);
  const bool has_locks = connection != nullptr && session_of(*connection).has_locks();
  return LockScope((options & abi::OPTION_BEGIN) != 0, (options & abi::OPTION_NOT_AUTOCOMMIT) == 0,
                   has_locks || (options & abi::OPTION_TABLE_LOCK) != 0);
}

Command command(Thread *thread) { return Command(exports::command_kind(thd_of(thread))); }
// Those for the redo log, except with `innodb_log_writer_threads`, and those that follow another's in the binary log.
bool hides_commit_waits(Thread *) { return true; }

bool runs_init_connect(Thread *thread) {
  Connection *connection = connections::find(thread);
  return connection != nullptr && !session_of(*connection).has_ended_command && exports::has_init_connect();
}

// Connections to the administrators' port need a privilege that bypasses, and internal sessions have no events.
bool is_of_main_port(Thread *) { return true; }
bool may_bypass(Thread *thread) { return exports::is_administrator(thd_of(thread)); }
bool has_bypass_set(Thread *thread) { return variables::has_bypass_set(thd_of(thread)); }

void begin_queueing(Thread *thread) {
  exports::enter_queue_stage(thd_of(thread));
  // Otherwise a pool of threads lacks one worker, and clients cannot connect.
  wait_hook::begin_behind(thd_of(thread), abi::WAIT_USER_LOCK);
}

void end_queueing(Thread *thread) {
  wait_hook::end_behind(thd_of(thread));
  exports::leave_queue_stage(thd_of(thread));
}

void wait_for_kill(std::chrono::milliseconds most) { wait_hook::wait_for_kill(most); }

bool can_refuse() { return exports::can_refuse(); }

void refuse(Thread *thread, const char *text) {
  if (text == nullptr)
    exports::fail_as_killed(thd_of(thread));
  else
    exports::fail(abi::ERROR_LOCK_WAIT_TIMEOUT, text);
}

// Never: without a wait for the client's command, statements would not be counted.
bool may_sleep() { return false; }
void set_events(bool) {}
void restore_events_of_others() {}

void warn(const char *text) { exports::log_warning(text); }

const char *const ALL_BYPASS =
    "all statements so far came from accounts with SUPER or CONNECTION_ADMIN, which bypass admission; test as an ordinary account";

}  // namespace flifo::server
