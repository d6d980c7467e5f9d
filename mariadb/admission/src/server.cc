// What the core asks of its server (server.h of the core), answered by MariaDB.
//
// SPDX-License-Identifier: GPL-2.0-only

#include "thread.h"

#include "stages.h"
#include "variables.h"

#include <mysql/service_kill_statement.h>
#include <mysql/service_progress_report.h>
#include <mysql/service_thd_wait.h>
#include <mysqld_error.h>

#include <cstring>

namespace flifo::server {
namespace {

// The error of a refused statement: one that clients and frameworks repeat.
constexpr unsigned REFUSED = ER_LOCK_WAIT_TIMEOUT;

// Bits of the server's session options, the same in every MariaDB since 5.1.
constexpr long long NOT_AUTOCOMMIT = 1LL << 19, BEGIN = 1LL << 20;

// Signalled by the server when it kills a queued statement: such a statement waits for it as far as the server knows. It also asks for
// a mutex, which it no longer uses after `end_killable_wait`.
exports::Condition killed;
std::mutex watcher_waits;
thread_local exports::Mutex killable;

// The text of this thread in the process list from before it queued.
thread_local const char *info_before;

// The server's numbers of statements, the same in MariaDB 10.11 to 11.8.
Command::Kind kind_of(int number) {
  switch (number) {
    case 0: return Command::Kind::SELECT;
    case 52: return Command::Kind::ROLLBACK;
    case 54: return Command::Kind::COMMIT;
    case 97: return Command::Kind::EXECUTE;
    default: return Command::Kind::OTHER;
  }
}

}  // namespace

unsigned long id(Thread *thread) { return thd_get_thread_id(thd_of(thread)); }
bool is_killed(Thread *thread) { return thd_kill_level(thd_of(thread)) != THD_IS_NOT_KILLED; }
bool is_idle(Thread *thread) { return exports::is_idle(thd_of(thread)); }

LockScope lock_scope(Thread *thread) {
  MYSQL_THD thd = thd_of(thread);
  const long long options = thd_test_options(thd, BEGIN | NOT_AUTOCOMMIT);
  return LockScope((options & BEGIN) != 0, (options & NOT_AUTOCOMMIT) == 0, exports::has_session_locks(thd));
}

Command command(Thread *thread) { return Command(kind_of(thd_sql_command(thd_of(thread)))); }
// Those of commits that follow another's in the binary log or in a cluster.
bool hides_commit_waits(Thread *thread) { return exports::logs_changes(thd_of(thread)); }

bool runs_init_connect(Thread *thread) {
  MYSQL_THD thd = thd_of(thread);
  // The public interface shows the stage's name only in exchange for another.
  const char *stage = thd_proc_info(thd, "Connecting");
  thd_proc_info(thd, stage);
  return stage != nullptr && strcmp(stage, "Execution of init_command") == 0;
}

bool is_of_main_port(Thread *thread) { return exports::is_of_main_port(thd_of(thread)); }
bool may_bypass(Thread *thread) { return exports::may_bypass(thd_of(thread)); }
bool has_bypass_set(Thread *thread) { return variables::has_bypass_set(thd_of(thread)); }

void begin_queueing(Thread *thread) {
  MYSQL_THD thd = thd_of(thread);
  info_before = thd_proc_info(thd, "Waiting for admission");
  // Otherwise a pool of threads lacks one worker, and clients cannot connect.
  exports::wait_begin_before(thd, THD_WAIT_USER_LOCK);
  exports::begin_killable_wait(thd, killed, killable);
}

void end_queueing(Thread *thread) {
  MYSQL_THD thd = thd_of(thread);
  exports::end_killable_wait(thd, killable);
  exports::wait_end_before(thd);
  thd_proc_info(thd, info_before);
}

void wait_for_kill(std::chrono::milliseconds most) {
  std::unique_lock<std::mutex> guard(watcher_waits);
  killed.wait_for(guard, most);
}

bool can_refuse() { return exports::can_refuse(); }
void refuse(Thread *thread, const char *text) { exports::refuse(thd_of(thread), text == nullptr ? 0 : REFUSED, text); }

// A pool of threads waits for commands without a thread. While this plugin is being removed, INSTALL needs the stages.
bool may_sleep() { return !exports::has_pool_of_threads() && exports::is_only_audit_plugin(); }

void set_events(bool are_on) {
  if (!are_on) stages::pause();
  exports::set_statement_events(are_on);
  if (are_on) stages::resume();
}

// A plugin that comes later switches the events on itself.
void restore_events_of_others() {
  if (!exports::is_only_audit_plugin()) exports::set_statement_events(true);
}

void warn(const char *text) { my_printf_error(ER_UNKNOWN_ERROR, "flifo: %s", ME_ERROR_LOG_ONLY | ME_WARNING, text); }

const char *const ALL_BYPASS =
    "all statements so far came from accounts with SUPER, CONNECTION ADMIN or REPLICATION SLAVE, which bypass admission; test as an ordinary account";

}  // namespace flifo::server
