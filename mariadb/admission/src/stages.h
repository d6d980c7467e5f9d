// The end of a statement's work, before it waits for the log.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// A commit over the text protocol does not wait for its log to be synced where it commits: it goes on, and waits before its
// reply is sent, which is before its last event, and tells nobody. So with the default `innodb_flush_log_at_trx_commit` = 1 a place
// would be held for as long as a sync takes, and as many statements as there are places share one. But the server shows
// in the processlist what a statement does, and tells the performance schema of it, switched on or off. "Freeing items" is what
// it does when the work is done, once, whatever ran within it, and also where a pool of threads goes on with another connection then.

#ifndef FLIFO_STAGES_H
#define FLIFO_STAGES_H

#include "server.h"

namespace flifo::stages {

// Has `work_done` called where a thread's statement has done its work, and not for those within it. False if this server does not
// tell.
bool hook(void (*work_done)(MYSQL_THD));

// Calls may be under way still.
void unhook();

}  // namespace flifo::stages

#endif
