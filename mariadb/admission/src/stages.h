// What a thread does, where the server tells it to the performance schema: the commit of a transaction, and the end of a
// statement's work.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// The wait callbacks tell nothing of some waits for logs, for which a place would be held:
//
// - With the default `innodb_flush_log_at_trx_commit` = 1 a commit over the text protocol does not wait for its log to be synced where
//   it commits: it goes on, and waits before its reply is sent, which is before its last event.
// - With a binary log, commits are written and synced by the group: one leads, the others wait for it. So they do for a semi-synchronous
//   replica's acknowledgement, and for a cluster's certification.
//
// But the server shows in the processlist what a statement does, and tells the performance schema of it, switched on or off.
// "Freeing items" is what it does when the work is done, once, whatever ran within it, and also where a pool of threads goes on with
// another connection then; "Commit" what it does while a transaction commits, or one statement's part of it.

#ifndef FLIFO_STAGES_H
#define FLIFO_STAGES_H

#include "server.h"

namespace flifo::stages {

enum class Stage : unsigned char {
  Other,
  // The statement has done its work; not told of those within it.
  WorkDone,
  // A commit begins, of the transaction or of a statement in it.
  Commit,
  // If there was a commit, it is over.
  CommitOver,
};

// Has `on_stage` called where a thread begins one of these, but `Other`. False if this server does not tell.
bool hook(void (*on_stage)(MYSQL_THD, Stage));

// Calls may be under way still.
void unhook();

}  // namespace flifo::stages

#endif
