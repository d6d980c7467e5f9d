// SPDX-License-Identifier: GPL-2.0-only

#include "exports.h"

#include <dlfcn.h>
#include <mysql/plugin_audit.h>

#include <atomic>
#include <cstring>

namespace flifo::exports {
namespace {

// The head of the server's table of functions for one kind of thread scheduling, as MariaDB 10.5 to 11.8 have it. Checked by
// `find`: `max_connections` must point to the variable of that name.
struct Scheduler {
  unsigned max_threads;
  void *connection_count;
  unsigned long *max_connections;
  bool (*init)();
  void (*add_connection)(void *);
  std::atomic<WaitBegin> wait_begin;
  std::atomic<WaitEnd> wait_end;
};
static_assert(sizeof(std::atomic<WaitBegin>) == sizeof(WaitBegin));

// `killed_state::KILL_QUERY`, in every MariaDB since 10.5.
constexpr int KILL_QUERY = 4;
// `COM_SLEEP`: no command is under way. Numbers of commands are the protocol's.
constexpr int SLEEP = 0;
// Bits of an account's global privileges; none implies another. They are stored in `mysql.global_priv`, so they cannot change.
constexpr unsigned long long SUPER = 1ULL << 15, REPLICATION_SLAVE = 1ULL << 19, CONNECTION_ADMIN = 1ULL << 32;
// False in a build for test suites whose every statement is an administrator's: it admits them like everybody else.
#ifdef FLIFO_ADMIT_ADMINISTRATORS
constexpr bool HAS_ADMINISTRATORS = false;
#else
constexpr bool HAS_ADMINISTRATORS = true;
#endif

Scheduler *scheduler;
// That of `extra_port`; null if the server does not export it.
const void *extra_scheduler;
WaitBegin begin_before;
WaitEnd end_before;
const unsigned *extra_port;
bool (*check_global_access)(MYSQL_THD, unsigned long long, bool no_errors);
void (*set_killed)(MYSQL_THD, int state, int error, const char *text);
int (*current_command)(MYSQL_THD);
int (*binlog_format)(MYSQL_THD);
void *(*mdl_context)(MYSQL_THD);
bool (*has_explicit_locks)(void *mdl_context);
void (*audit_release)(MYSQL_THD);
MYSQL_THD (*current_thd)();
size_t (*query_safe)(MYSQL_THD, char *, size_t);
void (*enter_condition)(MYSQL_THD, Condition *, Mutex *, const void *stage, void *old_stage, const char *, const char *, int);
void (*exit_condition)(MYSQL_THD, const void *stage, const char *, const char *, int);

// Which classes of audit events the server announces, one bit each; and a walk over its plugins.
unsigned long *audit_mask;
bool (*plugin_foreach)(MYSQL_THD, char (*)(MYSQL_THD, void *plugin, void *), int type, unsigned states, void *);
// States of a plugin, bits, the same in MariaDB 10.5 to 11.8.
constexpr unsigned PLUGIN_IS_READY = 8, PLUGIN_IS_LOADED = 2 | 4 | PLUGIN_IS_READY | 16;

unsigned count_audit_plugins(unsigned states) {
  unsigned count = 0;
  const auto see = [](MYSQL_THD, void *, void *counter) -> char {
    ++*static_cast<unsigned *>(counter);
    return 0;
  };
  plugin_foreach(nullptr, see, MYSQL_AUDIT_PLUGIN, states, &count);
  return count;
}

// `BINLOG_FORMAT_UNSPEC`: nothing goes to a binary log.
constexpr int NO_BINLOG = 3;

// The offset of a THD's pointer to its scheduler, one per port. It is searched in the first THD, and used only if it occurs once.
// A THD is several times as large as the part that is searched.
constexpr size_t SEARCHED = 4096, NOWHERE = SEARCHED, UNKNOWN = SEARCHED + 1;
std::atomic<size_t> scheduler_at{UNKNOWN};

const void *pointer_at(MYSQL_THD thd, size_t at) {
  const void *pointer;
  memcpy(&pointer, reinterpret_cast<const char *>(thd) + at, sizeof pointer);
  return pointer;
}

bool is_scheduler(const void *pointer) {
  return pointer == scheduler || (extra_scheduler != nullptr && pointer == extra_scheduler);
}

// Finds `scheduler_at` in this THD, unless it is known.
void find_scheduler(MYSQL_THD thd) {
  if (scheduler_at.load(std::memory_order_relaxed) != UNKNOWN) return;
  size_t found = NOWHERE;
  for (size_t at = 0; at < SEARCHED; at += sizeof(void *)) {
    if (!is_scheduler(pointer_at(thd, at))) continue;
    if (found != NOWHERE) return scheduler_at.store(NOWHERE, std::memory_order_relaxed);
    found = at;
  }
  scheduler_at.store(found, std::memory_order_relaxed);
}

template <class T>
void look_up(T &target, const char *name) {
  target = reinterpret_cast<T>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

const char *find() {
  look_up(extra_port, "mysqld_extra_port");
  look_up(check_global_access, "_Z19check_global_accessP3THD11privilege_tb");
  look_up(set_killed, "_ZN3THD10set_killedE12killed_stateiPKc");
  look_up(current_command, "thd_current_command");
  look_up(binlog_format, "thd_binlog_format");
  look_up(current_thd, "_current_thd");
  look_up(query_safe, "thd_query_safe");
  look_up(audit_release, "_Z19mysql_audit_releaseP3THD");
  look_up(enter_condition, "_Z14thd_enter_condP3THDP13st_mysql_condP14st_mysql_mutexPK17PSI_stage_info_v1PS5_PKcSA_i");
  look_up(exit_condition, "_Z13thd_exit_condP3THDPK17PSI_stage_info_v1PKcS5_i");
  look_up(audit_mask, "mysql_global_audit_mask");
  look_up(plugin_foreach, "_Z24plugin_foreach_with_maskP3THDPFcS0_P13st_plugin_intPvEijS3_");
  // A server built for debugging has other mutexes.
  if (dlsym(RTLD_DEFAULT, "safe_mutex_lock") != nullptr) enter_condition = nullptr;
  look_up(mdl_context, "thd_mdl_context");
  look_up(has_explicit_locks, "_ZN11MDL_context18has_explicit_locksEv");
  if (mdl_context == nullptr) has_explicit_locks = nullptr;
  Scheduler **exported;
  const void **exported_extra;
  unsigned long *max_connections;
  look_up(exported, "thread_scheduler");
  look_up(exported_extra, "extra_thread_scheduler");
  look_up(max_connections, "max_connections");
  scheduler = nullptr;
  if (exported == nullptr || max_connections == nullptr)
    return "this server does not export its thread scheduler: slots are kept during waits";
  // The server fills it before it loads plugins; the check guards against another layout.
  if (*exported == nullptr || (*exported)->max_connections != max_connections)
    return "this server's thread scheduler is not laid out as expected: slots are kept during waits";
  scheduler = *exported;
  extra_scheduler = exported_extra == nullptr ? nullptr : *exported_extra;
  return nullptr;
}

bool hook_waits(WaitBegin begin, WaitEnd end) {
  if (scheduler == nullptr) return false;
  begin_before = scheduler->wait_begin.load(std::memory_order_relaxed);
  end_before = scheduler->wait_end.load(std::memory_order_relaxed);
  // The end first: an end without a begin is harmless, a begin without an end leaks a wait.
  scheduler->wait_end.store(end, std::memory_order_release);
  scheduler->wait_begin.store(begin, std::memory_order_release);
  return true;
}

void unhook_waits() {
  if (scheduler == nullptr) return;
  scheduler->wait_begin.store(begin_before, std::memory_order_release);
  scheduler->wait_end.store(end_before, std::memory_order_release);
}

void wait_begin_before(MYSQL_THD thd, int kind) { if (begin_before != nullptr) begin_before(thd, kind); }
void wait_end_before(MYSQL_THD thd) { if (end_before != nullptr) end_before(thd); }

void saw_main_port(MYSQL_THD thd) { find_scheduler(thd); }

bool is_of_main_port(MYSQL_THD thd) {
  // Without the administrator's port there is one port.
  if (extra_port == nullptr || *extra_port == 0 || scheduler == nullptr) return true;
  // A pool of threads may serve many statements before a wait shows a connection of the main port.
  if (extra_scheduler != nullptr) find_scheduler(thd);
  const size_t at = scheduler_at.load(std::memory_order_relaxed);
  return at < SEARCHED && pointer_at(thd, at) == scheduler;
}

void Condition::wait_for(std::unique_lock<std::mutex> &guard, std::chrono::milliseconds most) {
  timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  const long long ns = until.tv_nsec + std::chrono::nanoseconds(most).count();
  until.tv_sec += ns / 1000000000;
  until.tv_nsec = ns % 1000000000;
  pthread_cond_clockwait(&condition, guard.mutex()->native_handle(), CLOCK_MONOTONIC, &until);
}

void begin_killable_wait(MYSQL_THD thd, Condition &condition, Mutex &mutex) {
  if (enter_condition == nullptr || exit_condition == nullptr) return;
  pthread_mutex_lock(&mutex.mutex);
  enter_condition(thd, &condition, &mutex, nullptr, nullptr, "", "", 0);
  // A statement that waits for a condition unlocks the mutex for that time.
  pthread_mutex_unlock(&mutex.mutex);
}

void end_killable_wait(MYSQL_THD thd, Mutex &mutex) {
  if (enter_condition == nullptr || exit_condition == nullptr) return;
  pthread_mutex_lock(&mutex.mutex);
  // Unlocks it.
  exit_condition(thd, nullptr, "", "", 0);
}

MYSQL_THD current() { return current_thd == nullptr ? nullptr : current_thd(); }

unsigned query_text(MYSQL_THD thd, char *text, size_t size) {
  return query_safe == nullptr ? 0 : static_cast<unsigned>(query_safe(thd, text, size));
}

void release_plugins(MYSQL_THD thd) { if (audit_release != nullptr) audit_release(thd); }

void set_statement_events(bool are_on) {
  if (audit_mask == nullptr) return;
  if (are_on)
    __atomic_fetch_or(audit_mask, MYSQL_AUDIT_GENERAL_CLASSMASK, __ATOMIC_SEQ_CST);
  else
    __atomic_fetch_and(audit_mask, ~static_cast<unsigned long>(MYSQL_AUDIT_GENERAL_CLASSMASK), __ATOMIC_SEQ_CST);
}

bool is_only_audit_plugin() {
  if (audit_mask == nullptr || plugin_foreach == nullptr) return false;
  return count_audit_plugins(PLUGIN_IS_LOADED) == 1 && count_audit_plugins(PLUGIN_IS_READY) == 1;
}

bool has_pool_of_threads() { return scheduler == nullptr || begin_before != nullptr; }

bool may_bypass(MYSQL_THD thd) {
  // One of the privileges is enough. It returns true for "access denied".
  constexpr unsigned long long ANY = SUPER | CONNECTION_ADMIN | REPLICATION_SLAVE;
  return check_global_access != nullptr && !check_global_access(thd, ANY, true) && HAS_ADMINISTRATORS;
}

bool is_idle(MYSQL_THD thd) { return current_command != nullptr && current_command(thd) == SLEEP; }
bool has_session_locks(MYSQL_THD thd) { return has_explicit_locks != nullptr && has_explicit_locks(mdl_context(thd)); }
bool logs_changes(MYSQL_THD thd) { return binlog_format != nullptr && binlog_format(thd) != NO_BINLOG; }

bool can_refuse() { return set_killed != nullptr && has_explicit_locks != nullptr; }

void refuse(MYSQL_THD thd, unsigned error, const char *text) {
  set_killed(thd, KILL_QUERY, static_cast<int>(error), text);
}

}  // namespace flifo::exports
