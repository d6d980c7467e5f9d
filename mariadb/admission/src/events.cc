// SPDX-License-Identifier: GPL-2.0-only

#include "events.h"

#include "dormancy.h"
#include "lifecycle.h"
#include "text.h"
#include "thread.h"

#include <mysql/service_thd_wait.h>
#include <mysqld_error.h>

#include <atomic>
#include <cstring>
#include <string_view>

namespace flifo::events {
namespace {

// This thread is in `release_plugin`, so `on_release` is no end of a statement.
thread_local bool releases_plugin;
// The connection whose statement is loading the plugin.
std::atomic<MYSQL_THD> installing{nullptr};

using Request = Event::Request;

template <size_t SIZE>
bool is_command(const mysql_event_general &event, const char (&name)[SIZE]) {
  return event.general_command_length == SIZE - 1 && memcmp(event.general_command, name, SIZE - 1) == 0;
}

// The event of PREPARE comes after its work.
Request request_at_begin(const mysql_event_general &event) {
  if (is_command(event, "Query")) return Request::QUERY;
  if (is_command(event, "Execute")) return Request::EXECUTE;
  return is_command(event, "Bulk_execute") ? Request::BULK_EXECUTE : Request::OTHER;
}

// An end of what was prepared means no more than any other: it is OTHER.
Request request_at_end(const mysql_event_general &event) {
  if (is_command(event, "Query")) return Request::QUERY;
  return is_command(event, "Reset connection") ? Request::RESET : Request::OTHER;
}

// Where the server numbers statements differently: these two errors carry their text in place of the command, and it names EXECUTE in
// every language. The statement's text is no help: EXECUTE may stand in a comment.
bool is_error_of_execute(const mysql_event_general &event) {
  if (event.general_error_code != ER_UNKNOWN_STMT_HANDLER && event.general_error_code != ER_WRONG_ARGUMENTS) return false;
  const std::string_view error(event.general_command, event.general_command_length);
  return error.find("EXECUTE") != std::string_view::npos;
}

Event of(const mysql_event_general &event, Request request) {
  return {request,           event.general_error_code != 0, false, event.general_query, event.general_query_length,
          static_cast<unsigned long long>(event.query_id)};
}

Event of_begin(const mysql_event_general &event) { return of(event, request_at_begin(event)); }
Event of_end(const mysql_event_general &event) { return of(event, request_at_end(event)); }

Event of_error(const mysql_event_general &event) {
  Event error = of(event, Request::OTHER);
  error.is_of_execute = is_error_of_execute(event);
  return error;
}

flifo_wait_kind_t kind_of(int server_kind) {
  switch (server_kind) {
    case THD_WAIT_ROW_LOCK: return FLIFO_WAIT_ROW_LOCK;
    case THD_WAIT_GLOBAL_LOCK:
    case THD_WAIT_META_DATA_LOCK:
    case THD_WAIT_TABLE_LOCK:
    case THD_WAIT_USER_LOCK: return FLIFO_WAIT_TABLE_LOCK;
    case THD_WAIT_DISKIO: return FLIFO_WAIT_DISK;
    case THD_WAIT_NET: return FLIFO_WAIT_NETWORK;
    case THD_WAIT_GROUP_COMMIT:
    case THD_WAIT_SYNC: return FLIFO_WAIT_LOG_SYNC;
    case THD_WAIT_SLEEP: return FLIFO_WAIT_SLEEP;
    default: return FLIFO_WAIT_USER;
  }
}

// The server releases a plugin after a client's command, if UNINSTALL ran since the thread acquired it. Three kinds of threads would
// keep it until they end: those of the server (appliers, the receiver of a semi-synchronous replica's replies), those that send the
// binary log, and a client that connected before UNINSTALL and sends its first command after it, since then the server takes the
// acquisition for a later one.
void release_plugin(MYSQL_THD thd) {
  releases_plugin = true;
  exports::release_plugins(thd);
  releases_plugin = false;
}

// No event has shown the statement's begin. So the plugin is leaving; INSTALL has then no effect, which the server does not report.
void see_install(MYSQL_THD thd) {
  char text[200];
  const unsigned length = exports::query_text(thd, text, sizeof text);
  if (!Text(text, length).installs_flifo()) return;
  if (installing.exchange(nullptr) == thd) return;
  my_printf_error(ER_UNKNOWN_ERROR, "flifo: not installed: clients that have been idle since UNINSTALL keep the plugin; try again later", 0);
}

}  // namespace

void open() { installing = exports::current(); }

void on_general(MYSQL_THD thd, const mysql_event_general &event) {
  // Errors outside of any connection have no THD.
  if (thd == nullptr || dormancy::is_on()) return;
  server::Thread *thread = thread_of(thd);
  if (event.event_subclass == MYSQL_AUDIT_GENERAL_LOG)
    lifecycle::on_statement_begin(thread, of_begin(event));
  else if (event.event_subclass == MYSQL_AUDIT_GENERAL_ERROR)
    lifecycle::on_error(thread, of_error(event));
  else if (event.event_subclass == MYSQL_AUDIT_GENERAL_STATUS)
    lifecycle::on_statement_end(thread, of_end(event));
  else
    lifecycle::on_packet_end(thread, of_end(event));
  if (!lifecycle::is_client(thread)) stages::at_next_stage(release_plugin);
}

void on_connection(MYSQL_THD thd, const mysql_event_connection &event) {
  server::Thread *thread = thread_of(thd);
  const bool has_failed = event.status != 0;
  if (event.event_subclass == MYSQL_AUDIT_CONNECTION_CONNECT && !has_failed) {
    lifecycle::on_connect(thread);
    stages::at_next_stage(release_plugin);
  }
  if (event.event_subclass == MYSQL_AUDIT_CONNECTION_CHANGE_USER) lifecycle::on_change_user(thread, has_failed);
  if (event.event_subclass == MYSQL_AUDIT_CONNECTION_DISCONNECT) lifecycle::on_disconnect(thread);
}

void on_release(MYSQL_THD thd) {
  if (!releases_plugin) lifecycle::on_release(thread_of(thd));
}

void on_wait_begin(MYSQL_THD thd, int server_kind) {
  exports::wait_begin_before(thd, server_kind);
  const flifo_wait_kind_t kind = kind_of(server_kind);
  if (kind == FLIFO_WAIT_NETWORK) {
    // A client that has just connected may be silent forever.
    stages::run_deferred();
    exports::saw_main_port(thd);
  }
  lifecycle::on_wait_begin(thread_of(thd), kind);
}

void on_wait_end(MYSQL_THD thd) {
  exports::wait_end_before(thd);
  lifecycle::on_wait_end(thread_of(thd));
}

void on_stage(MYSQL_THD thd, stages::Stage stage) {
  // Dormant, the stages are on only until a new connection has given the plugin back.
  if (dormancy::is_on() && stage != stages::Stage::SENDS_BINLOG) return;
  server::Thread *thread = thread_of(thd);
  switch (stage) {
    case stages::Stage::WORK_DONE:
      if (!lifecycle::on_work_done(thread)) see_install(thd);
      return;
    case stages::Stage::COMMIT: return lifecycle::on_commit_begin(thread);
    case stages::Stage::COMMIT_END: return lifecycle::on_commit_end(thread);
    case stages::Stage::SENDS_BINLOG: return release_plugin(thd);
    case stages::Stage::OTHER: return;
  }
}

}  // namespace flifo::events
