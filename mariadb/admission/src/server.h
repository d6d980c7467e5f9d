// What the plugin uses of the server beyond its public headers.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// Everything here is looked up by name when the plugin is loaded. What a server does not export, or lays out
// differently, is not used, and the feature that needs it is missing: the rest works.

#ifndef FLIFO_SERVER_H
#define FLIFO_SERVER_H

// The server's headers clash with the C++ library's unless they come first.
#include <my_global.h>

#include <mysql/plugin.h>

namespace flifo::server {

// Called before and after a thread of the server waits. `kind` is a `thd_wait_type`.
using WaitBegin = void (*)(MYSQL_THD, int kind);
using WaitEnd = void (*)(MYSQL_THD);

// Finds what the server exports. Returns null, or one line that says what is missing and what it costs.
const char *find();

// Whether the server calls us around its waits; see `hook_waits`.
bool waits_can_be_hooked();

// Has these called around the waits of every connection but those of `extra_port`. The server's own callbacks
// (pool-of-threads) are called through `wait_begin_before` and `wait_end_before`.
void hook_waits(WaitBegin begin, WaitEnd end);

// Puts the server's own callbacks back. A call may still be under way when this returns.
void unhook_waits();

// The server's own callbacks; they do nothing under thread-per-connection.
void wait_begin_before(MYSQL_THD thd, int kind);
void wait_end_before(MYSQL_THD thd);

// Whether an administrator's port is open, whose connections `hook_waits` leaves alone.
bool has_extra_port();

// A callback came for this connection, so it is not the administrator's port's. From the first of them on
// `is_of_main_port` knows.
void saw_main_port(MYSQL_THD thd);

// Whether a connection is known not to have come by the administrator's port.
bool is_of_main_port(MYSQL_THD thd);

// Whether the account has CONNECTION ADMIN or SUPER. False if the server does not let us ask.
bool is_connection_admin(MYSQL_THD thd);

// Whether it is known that the client's last command is over, and the next has not come.
bool is_idle(MYSQL_THD thd);

// Whether what it changes goes to a binary log, or to a cluster's other nodes. False if the server does not let us ask.
bool logs_changes(MYSQL_THD thd);

// Whether the server runs `init_connect` for this connection: asked when its text begins to run.
bool runs_init_connect(MYSQL_THD thd);

// Whether `refuse` and `kill_query` work here.
bool can_refuse();

// Makes the statement that this thread of the server is about to run fail with this error: it is killed as by
// KILL QUERY, with a text of its own. `text` is copied.
void refuse(MYSQL_THD thd, unsigned error, const char *text);

// Kills it as KILL QUERY does.
void kill_query(MYSQL_THD thd);

}  // namespace flifo::server

#endif
