// Which statement asks for a place, and when it gives it back.
//
// SPDX-License-Identifier: GPL-2.0-only

#ifndef FLIFO_STATEMENT_H
#define FLIFO_STATEMENT_H

#include "connection.h"

#include <mysql/plugin_audit.h>

namespace flifo::statement {

// An event of the server's: `event` is what `event_class` says.
void on_event(MYSQL_THD thd, unsigned event_class, const void *event);

// A client's statement has done its work: it gives its place up before it waits for its log to be synced and sends its reply. Its
// last event is still to come.
void on_work_done(MYSQL_THD thd);

// Whether what it is about to commit has changes, as far as that is known. The end of a statement in a transaction that goes on commits
// nothing.
bool commits_changes(const Connection &connection, MYSQL_THD thd);

// It has, and goes on.
void has_committed(Connection &connection, MYSQL_THD thd);

// The server lets go of a connection.
void on_release(MYSQL_THD thd);

// The statement that is under way is over, whatever events are still to come. They would have said what it has locked: it may be
// anything.
void leave_early(Connection &connection);

// Statements that asked nobody: of administrators, of connections that bypass, and of more connections than
// the scheduler has sessions for.
extern std::atomic<unsigned long long> bypassed;

// Statements that failed because they queued too long, or because too many did.
extern std::atomic<unsigned long long> refused_timeout, refused_queue_full;

// The plugin comes, and may have been here before: all are 0 again.
void forget_counts();

}  // namespace flifo::statement

#endif
