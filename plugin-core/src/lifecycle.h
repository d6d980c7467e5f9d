// The events of a connection's and a statement's life, in the order in which the server's part reports them.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// While the plugin is dormant (dormancy.h) only the connection's events and its waits come. Otherwise:
//
//   connect -> ( begin -> [sub-statement | wait begin .. wait end | commit .. commit end | error]*
//                      -> work done -> end )* -> change user | disconnect
//
// A statement acquires a slot where it begins and releases it where its work is done, before its commit waits for the log and
// before its reply is sent. Any event may be missing or come twice: the idle wait for the next command and the release of the
// connection end whatever is still under way.
//
// Failure: a statement that cannot be admitted for want of memory bypasses, and is counted in `Flifo_bypassed`.
#pragma once

#include "packet.h"
#include "server.h"

#include <flifo.h>

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

// A packet's first statement begins, or a statement inside it. An event of another kind than `runs_statements` is ignored.
void on_statement_begin(server::Thread *thread, const Event &event);
// A statement of the packet has ended, or a statement inside it, or a command that is no statement.
void on_statement_end(server::Thread *thread, const Event &event);
// A packet has ended.
void on_packet_end(server::Thread *thread, const Event &event);
// A statement has failed; its end may follow.
void on_error(server::Thread *thread, const Event &event);
// A client has connected and its account is known; it asks for another account; it has left.
void on_connect(server::Thread *thread);
void on_change_user(server::Thread *thread, bool has_failed);
void on_disconnect(server::Thread *thread);
// The server releases what it keeps of the plugin for a connection: whatever is under way is over.
void on_release(server::Thread *thread);
// The server's thread begins to wait; it goes on.
void on_wait_begin(server::Thread *thread, flifo_wait_kind_t kind);
void on_wait_end(server::Thread *thread);
// The client's statement has done its work. False if no statement is known to be under way.
bool on_work_done(server::Thread *thread);
// A commit begins, of a transaction or of a statement in it; a commit is over, if there was one.
void on_commit_begin(server::Thread *thread);
void on_commit_end(server::Thread *thread);
// Whether the connection was seen to be a client's.
bool is_client(server::Thread *thread);

}  // namespace flifo::lifecycle
