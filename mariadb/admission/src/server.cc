// SPDX-License-Identifier: GPL-2.0-only

#include "server.h"

#include <dlfcn.h>

#include <atomic>
#include <cstring>

namespace flifo::server {
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
// The bits of SUPER and CONNECTION ADMIN in an account's global privileges; neither implies the other. They are stored in
// `mysql.global_priv`, so they cannot change.
constexpr unsigned long long SUPER = 1ULL << 15, CONNECTION_ADMIN = 1ULL << 32;
// False in a build for test suites whose every statement is an administrator's: it admits them like everybody else.
#ifdef FLIFO_ADMIT_ADMINISTRATORS
constexpr bool HAS_ADMINISTRATORS = false;
#else
constexpr bool HAS_ADMINISTRATORS = true;
#endif

Scheduler *scheduler;
WaitBegin begin_before;
WaitEnd end_before;
const unsigned *extra_port;
bool (*check_global_access)(MYSQL_THD, unsigned long long, bool no_errors);
void (*set_killed)(MYSQL_THD, int state, int error, const char *text);
int (*current_command)(MYSQL_THD);
int (*binlog_format)(MYSQL_THD);

// `BINLOG_FORMAT_UNSPEC`: nothing goes to a binary log.
constexpr int NO_BINLOG = 3;

// The offset of a THD's pointer to its scheduler, one per port. It is searched in a THD of the main port, and used only if it
// occurs once. A THD is several times as large as the part that is searched.
constexpr size_t SEARCHED = 4096, NOWHERE = SEARCHED, UNKNOWN = SEARCHED + 1;
std::atomic<size_t> scheduler_at{UNKNOWN};

const void *pointer_at(MYSQL_THD thd, size_t at) {
  const void *pointer;
  memcpy(&pointer, reinterpret_cast<const char *>(thd) + at, sizeof pointer);
  return pointer;
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
  Scheduler **exported;
  unsigned long *max_connections;
  look_up(exported, "thread_scheduler");
  look_up(max_connections, "max_connections");
  scheduler = nullptr;
  if (exported == nullptr || max_connections == nullptr)
    return "this server does not export its thread scheduler: slots are kept during waits";
  // The server fills it before it loads plugins; the check guards against another layout.
  if (*exported == nullptr || (*exported)->max_connections != max_connections)
    return "this server's thread scheduler is not laid out as expected: slots are kept during waits";
  scheduler = *exported;
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

void saw_main_port(MYSQL_THD thd) {
  if (scheduler_at.load(std::memory_order_relaxed) != UNKNOWN) return;
  size_t found = NOWHERE;
  for (size_t at = 0; at < SEARCHED; at += sizeof(void *)) {
    if (pointer_at(thd, at) != scheduler) continue;
    if (found != NOWHERE) return scheduler_at.store(NOWHERE, std::memory_order_relaxed);
    found = at;
  }
  scheduler_at.store(found, std::memory_order_relaxed);
}

bool is_of_main_port(MYSQL_THD thd) {
  // Without the administrator's port there is one port.
  if (extra_port == nullptr || *extra_port == 0 || scheduler == nullptr) return true;
  const size_t at = scheduler_at.load(std::memory_order_relaxed);
  return at < SEARCHED && pointer_at(thd, at) == scheduler;
}

bool is_connection_admin(MYSQL_THD thd) {
  // Either privilege is enough. It returns true for "access denied".
  return check_global_access != nullptr && !check_global_access(thd, SUPER | CONNECTION_ADMIN, true) && HAS_ADMINISTRATORS;
}

bool is_idle(MYSQL_THD thd) { return current_command != nullptr && current_command(thd) == SLEEP; }
bool logs_changes(MYSQL_THD thd) { return binlog_format != nullptr && binlog_format(thd) != NO_BINLOG; }

bool runs_init_connect(MYSQL_THD thd) {
  // The public interface shows the stage's name only in exchange for another.
  const char *stage = thd_proc_info(thd, "Connecting");
  thd_proc_info(thd, stage);
  return stage != nullptr && strcmp(stage, "Execution of init_command") == 0;
}

bool can_refuse() { return set_killed != nullptr; }

void refuse(MYSQL_THD thd, unsigned error, const char *text) {
  set_killed(thd, KILL_QUERY, static_cast<int>(error), text);
}

}  // namespace flifo::server
