// This server's hooks, and the events of the core that they become.
//
// SPDX-License-Identifier: GPL-2.0-only
//
//   this server                          the core
//   audit event LOG                      a packet's first statement begins, or a statement inside it
//   audit event STATUS                   a statement has ended
//   audit event RESULT                   a packet has ended
//   audit event ERROR                    a statement has failed
//   audit events of connections          connect, change of user, disconnect
//   wait callbacks                       a wait begins, ends
//   stages (stages.h)                    work done, a commit begins, ends
#pragma once

#include "exports.h"
#include "stages.h"

#include <mysql/plugin_audit.h>

namespace flifo::events {

// The plugin is loaded, at the server's start or by a statement of this thread.
void open();
// Events of the audit interface: of statements, and of connections.
void on_general(MYSQL_THD thd, const mysql_event_general &event);
void on_connection(MYSQL_THD thd, const mysql_event_connection &event);
// The server releases a connection.
void on_release(MYSQL_THD thd);
// The server's wait callbacks; `server_kind` is a `thd_wait_type`.
void on_wait_begin(MYSQL_THD thd, int server_kind);
void on_wait_end(MYSQL_THD thd);
// A stage of a statement begins.
void on_stage(MYSQL_THD thd, stages::Stage stage);

}  // namespace flifo::events
