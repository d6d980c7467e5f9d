// What the plugin uses of the server beyond its public headers.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// Everything here is looked up by name when the plugin is loaded. Failure: what a server does not export, or lays out
// differently, is not used; the feature that needs it is missing and the rest works.

#pragma once

// The server's headers clash with the C++ library's unless they come first.
#include <my_global.h>

#include <mysql/plugin.h>

#include <chrono>
#include <mutex>

namespace flifo::exports {

// Called before and after a thread of the server waits. `kind` is a `thd_wait_type`.
using WaitBegin = void (*)(MYSQL_THD, int kind);
using WaitEnd = void (*)(MYSQL_THD);
// Looks up what the server exports. Returns null, or one line that says what is missing and what it costs.
const char *find();
// Sets the callbacks around the waits of every connection except those of `extra_port`. They must call the server's own
// (pool-of-threads) through `wait_begin_before` and `wait_end_before`. False if this server's callbacks cannot be set.
bool hook_waits(WaitBegin begin, WaitEnd end);
// Restores the server's own callbacks. A call may still run when this returns.
void unhook_waits();
// The server's own callbacks; they do nothing under thread-per-connection.
void wait_begin_before(MYSQL_THD thd, int kind);
void wait_end_before(MYSQL_THD thd);
// A wait callback came for this connection, so it is of the main port. `is_of_main_port` works from the first call on, and without
// it where the server exports the scheduler of `extra_port`.
void saw_main_port(MYSQL_THD thd);
// Whether the connection is known to have come by the main port.
bool is_of_main_port(MYSQL_THD thd);
// A mutex and a condition as the server lays them out, without instrumentation, unless it was built for
// debugging.
struct Mutex {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  void *instrumentation = nullptr;
};
struct Condition {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  void *instrumentation = nullptr;
  // Until it is signalled, or this time has passed.
  void wait_for(std::unique_lock<std::mutex> &guard, std::chrono::milliseconds most);
};
// Until `end_killable_wait` the server signals `condition` when it kills the connection's statement. Does nothing if the server
// does not export that.
void begin_killable_wait(MYSQL_THD thd, Condition &condition, Mutex &mutex);
void end_killable_wait(MYSQL_THD thd, Mutex &mutex);
// The thread's connection; null if it serves none, or the server does not export that.
MYSQL_THD current();
// Copies the connection's statement, cut off if it is long; returns its length.
unsigned query_text(MYSQL_THD thd, char *text, size_t size);
// Releases the plugins that this thread keeps for its next event; the thread acquires them again. Not in the middle of an event.
void release_plugins(MYSQL_THD thd);
// Switches the audit events of statements on or off for the whole server. They are on when a plugin that needs them is loaded.
void set_statement_events(bool are_on);
// Whether no other audit plugin is loaded, and this one is not being removed. False if the server does not export that.
bool is_only_audit_plugin();
// Whether a pool of threads serves the connections.
bool has_pool_of_threads();
// Whether the account bypasses admission: it has CONNECTION ADMIN, SUPER or REPLICATION SLAVE. False if the server does not
// export the check.
bool may_bypass(MYSQL_THD thd);
// Whether the client's last command is known to be over and the next has not come.
bool is_idle(MYSQL_THD thd);
// Whether the session holds locks that outlive its transactions: metadata locks of explicit duration. False if the server does
// not export that; then `can_refuse` is false, too.
bool has_session_locks(MYSQL_THD thd);
// Whether its changes go to a binary log or to other nodes of a cluster. False if the server does not export that.
bool logs_changes(MYSQL_THD thd);
// Whether `refuse` works here, and it is known who must not be refused.
bool can_refuse();
// Kills the statement that this thread is about to run, as KILL QUERY does; with an error other than 0, the client gets that
// error and a copy of `text`.
void refuse(MYSQL_THD thd, unsigned error, const char *text);

}  // namespace flifo::exports
