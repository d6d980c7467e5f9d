// This server's audit events, and the events of the core that they become.
//
// SPDX-License-Identifier: GPL-2.0-only
//
//   this server                          the core
//   QUERY_START                          a statement begins, as a packet of its own; not inside a text EXECUTE
//   QUERY_NESTED_START                   a statement inside a procedure, a function or a trigger begins
//   QUERY_STATUS_END                     the statement has ended; a statement that is a transaction commits after this
//   COMMAND_END                          the packet has ended, with what has reported no end
//   events of connections                connect, change of user, disconnect
//   wait functions (wait_hook.h)         a wait begins, ends
//
// GENERAL_STATUS is not used: a prepared CALL has it after each statement of the procedure. NESTED_STATUS_END is not: a trigger's
// statements have none.
//
// A commit holds no slot, since the server reports few of its waits (`hides_commit_waits`):
//
//   what commits                         the slot is released            it is acquired again
//   a statement that is a transaction    at its QUERY_STATUS_END         by the next statement
//   the same, run by EXECUTE             at its own QUERY_STATUS_END     by the next statement
//   COMMIT, XA PREPARE, XA COMMIT        once it is admitted             by the next statement
//   COMMIT in a procedure                once it has begun               by the procedure's next statement
//   another statement in a procedure     in waits that are reported      when the wait ends
//   a DDL statement, BEGIN               in waits that are reported      when the wait ends
#pragma once

#include "abi.h"
#include "server.h"

namespace flifo::events {

// Returns other than 0 if the statement that begins is refused, or was killed in the queue; its error is set then.
int on_event(THD *thd, abi::AuditClass event_class, const void *event);
// For the declaration of the plugin: what `on_event` is called with.
extern const abi::Audit AUDIT;
// The innermost wait of this thread ends.
void on_wait_end(server::Thread *thread);

}  // namespace flifo::events
