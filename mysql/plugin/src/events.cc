// SPDX-License-Identifier: GPL-2.0-only

#include "events.h"

#include "connection.h"
#include "lifecycle.h"
#include "session.h"
#include "thread.h"

namespace flifo::events {
namespace {

using Request = Event::Request;

// The text may be missing.
abi::Text text_of(const abi::QueryEvent &event) { return event.query.str == nullptr ? abi::Text{"", 0} : event.query; }

// A statement's end is OTHER: the next one of the packet reports its own begin.
Event of(const abi::QueryEvent &event, Request request, unsigned long long number) {
  const abi::Text text = text_of(event);
  return {request, event.status != 0, false, text.str, static_cast<unsigned>(text.length), number};
}

bool is_kept_out(const Connection &connection) { return connection.statement.kept_out != FLIFO_OK; }

// The core has failed a statement that it refused; the server fails a killed one only later.
void fail_if_killed(const Connection &connection, server::Thread *thread) {
  if (connection.statement.kept_out == FLIFO_CANCELLED) server::refuse(thread, nullptr);
}

// Only COMMIT is known before it runs; `lifecycle` decides whether there is something to commit.
void begin_commit(server::Thread *thread) {
  if (server::command(thread).is_commit()) lifecycle::on_commit_begin(thread);
}

int on_begin(server::Thread *thread, const abi::QueryEvent &event) {
  Connection *connection = connections::get(thread);
  if (connection == nullptr) {
    // It counts what bypasses.
    lifecycle::on_statement_begin(thread, of(event, Request::QUERY, 0));
    return 0;
  }
  Session &session = session_of(*connection);
  const bool is_inside = session.depth++ != 0;
  if (!is_inside) {
    lifecycle::on_statement_begin(thread, of(event, Request::QUERY, ++session.number));
    if (is_kept_out(*connection)) {
      fail_if_killed(*connection, thread);
      Event end = of(event, Request::OTHER, session.number);
      end.has_failed = true;
      session.depth = 0;
      lifecycle::on_statement_end(thread, end);
      return 1;
    }
  }
  session.see_begin(text_of(event));
  begin_commit(thread);
  return 0;
}

int on_begin_inside(server::Thread *thread, const abi::QueryEvent &event) {
  Connection *connection = connections::find(thread);
  if (connection == nullptr || !connection->statement.is_active) return 0;
  // Its end is not reported, or not seen.
  session_of(*connection).see_begin(text_of(event));
  session_of(*connection).see_end(text_of(event));
  if (connection->statement.bypasses) return 0;
  // A commit before it is over.
  lifecycle::on_commit_end(thread);
  lifecycle::on_statement_begin(thread, of(event, Request::QUERY, 0));
  fail_if_killed(*connection, thread);
  if (is_kept_out(*connection)) return 1;
  begin_commit(thread);
  return 0;
}

void on_end(server::Thread *thread, const abi::QueryEvent &event) {
  Connection *connection = connections::find(thread);
  if (connection == nullptr) return;
  Session &session = session_of(*connection);
  if (session.depth == 0) return;
  if (event.status == 0) session.see_end(text_of(event));
  if (--session.depth == 0)
    lifecycle::on_statement_end(thread, of(event, Request::OTHER, session.number));
  else
    // What EXECUTE ran has done its work, and commits if it is a transaction.
    lifecycle::on_commit_begin(thread);
}

void on_command_end(server::Thread *thread, const abi::CommandEvent &event) {
  Connection *connection = connections::find(thread);
  if (connection == nullptr) return;
  Session &session = session_of(*connection);
  const bool is_reset = event.command == abi::COMMAND_RESET_CONNECTION;
  session.depth = 0;
  session.has_ended_command = true;
  if (is_reset) session.reset_locks();
  lifecycle::on_packet_end(thread, {is_reset ? Request::RESET : Request::OTHER, event.status != 0, false, "", 0, 0});
}

void on_change_user(server::Thread *thread, bool has_failed) {
  if (Connection *connection = connections::find(thread)) session_of(*connection).reset_locks();
  lifecycle::on_change_user(thread, has_failed);
}

void on_connection(server::Thread *thread, const abi::AnyEvent &event) {
  if (event.kind == abi::CONNECTION_CONNECT && event.status == 0) lifecycle::on_connect(thread);
  if (event.kind == abi::CONNECTION_CHANGE_USER) on_change_user(thread, event.status != 0);
  if (event.kind == abi::CONNECTION_DISCONNECT) lifecycle::on_disconnect(thread);
}

int on_query(server::Thread *thread, const abi::QueryEvent &event) {
  if (event.kind == abi::QUERY_START) return on_begin(thread, event);
  if (event.kind == abi::QUERY_NESTED_START) return on_begin_inside(thread, event);
  if (event.kind == abi::QUERY_STATUS_END) on_end(thread, event);
  return 0;
}

}  // namespace

int on_event(THD *thd, abi::AuditClass event_class, const void *event) {
  server::Thread *thread = thread_of(thd);
  switch (event_class) {
    case abi::AuditClass::QUERY: return on_query(thread, *static_cast<const abi::QueryEvent *>(event));
    case abi::AuditClass::COMMAND: on_command_end(thread, *static_cast<const abi::CommandEvent *>(event)); return 0;
    case abi::AuditClass::CONNECTION: on_connection(thread, *static_cast<const abi::AnyEvent *>(event)); return 0;
  }
  return 0;
}

void on_wait_end(server::Thread *thread) {
  Connection *connection = connections::find(thread);
  if (connection == nullptr) return;
  const waits::State &waits = connection->waits;
  const bool is_commit = waits.depth == 1 && !waits.is_commit && waits.kinds[0] == FLIFO_WAIT_LOG_SYNC;
  lifecycle::on_wait_end(thread);
  // The wait has ended with a forced entry: without this a procedure that commits never queues.
  if (is_commit && connection->packet.has_sub_statement() && server::lock_scope(thread).is_statement())
    connection->statement.must_reacquire = true;
}

const abi::Audit AUDIT{
    abi::AUDIT_INTERFACE_VERSION,
    nullptr,
    on_event,
    {0, abi::CONNECTION_CONNECT | abi::CONNECTION_DISCONNECT | abi::CONNECTION_CHANGE_USER, 0, 0, 0, 0, 0, 0, abi::COMMAND_END,
     abi::QUERY_START | abi::QUERY_NESTED_START | abi::QUERY_STATUS_END},
};

}  // namespace flifo::events
