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
// statements have none. While the binary log is open, a COMMIT is one wait as a whole, since the server reports no waits of those that
// follow another's group commit. The server does not report commits inside a procedure: a wait for a log shows them.
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
