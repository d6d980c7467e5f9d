// The events of a connection's and a statement's life, in the order in which they come.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// While the plugin is dormant (dormancy.h) only the connection's events and the wait callbacks come. Otherwise:
//
//   connect -> ( begin -> [sub-statement | wait begin .. wait end | commit .. commit end | error]*
//                      -> work done -> end )* -> change user | disconnect
//
// A statement acquires a slot where it begins and releases it where its work is done, before its commit waits for the log and
// before its reply is sent. Any event may be missing or come twice: the idle wait for the next command and the release of the
// connection end whatever is still under way.
//
// States of a statement:
//
//   is_active  bypasses  kept_out  meaning
//   no         no        any       none is under way
//   yes        no        OK        was admitted; it holds a slot unless it waits or the limit is 0
//   yes        no        not OK    was refused, or killed in the queue; the server ends it
//   yes        yes       OK        is not subject to admission
//
// Failure: a statement that cannot be admitted for want of memory bypasses, and is counted in `Flifo_bypassed`.
#pragma once

#include "server.h"
#include "stages.h"

#include <flifo.h>
#include <mysql/plugin_audit.h>

namespace flifo::lifecycle {

// Of a connection: whose it is.
struct Account {
  // It was seen to be a client's; appliers, events and internal threads are not.
  bool is_client;
  // Its privileges were looked up, and include one to bypass admission.
  bool is_known, is_admin;
  // They may have changed since.
  bool must_look_up;
  // It was accepted, and its first statement has not begun, or is `init_connect`.
  bool is_connecting;
};

// Of the statement under way.
struct Statement {
  bool is_active, bypasses;
  // A statement inside it has committed: the next one acquires a slot anew.
  bool must_reacquire;
  // Why it has no slot: refused or killed in the queue. FLIFO_OK: neither.
  flifo_status_t kept_out;
};

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

}  // namespace flifo::lifecycle
