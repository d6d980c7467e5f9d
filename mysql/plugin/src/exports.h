// What the plugin uses of the running server, looked up by name when the plugin is loaded. It links no symbol of the server.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// Failure: a server whose exports have another layout than `abi.h` is refused (`find_misfit`). What a fitting server does not
// export is not used: `find` names it and what it costs, and the rest works.
#pragma once

#include "abi.h"
#include "command.h"

namespace flifo::exports {

// Compares `abi.h` with what the server exports. Returns null, or one line that says what does not fit. The line is valid until
// the next call.
const char *find_misfit();
// Looks up what is used. Returns null, or one line that names what is missing and what it costs.
const char *find();

// Writes a line to the server's error log. `plugin` is what the server passes to `init`.
void open_log(void *plugin);
void log_error(const char *line);
void log_warning(const char *line);

// The thread's connection; null if it serves none.
THD *current();
unsigned long thread_id(THD *thd);
// Whether the connection's statement is killed, or its time is over. Any thread may ask while the connection lives.
bool is_killed(THD *thd);
// Whether the account bypasses admission: it has CONNECTION_ADMIN or SUPER. False if the server does not export the check.
bool is_administrator(THD *thd);
// The session's options of these bits. All of them if the server does not export that: then every session counts as a holder of locks.
long long options(THD *thd, long long bits);
// What kind of statement the thread runs. OTHER if the server does not export that.
Command::Kind command_kind(THD *thd);
// Whether `init_connect` is set.
bool has_init_connect();
// Whether `fail` works, and `options` are known.
bool can_refuse();
// The thread is shown as waiting for admission, in SHOW PROCESSLIST and in the performance schema.
void enter_queue_stage(THD *thd);
void leave_queue_stage(THD *thd);
// Fails the current statement with this error and text.
void fail(unsigned error, const char *text);
// Fails the current statement with the error that belongs to its kill.
void fail_as_killed(THD *thd);

// Where the server keeps its functions around waits; null if it does not export that.
const abi::WaitFunctions **wait_functions();

}  // namespace flifo::exports
