// The stages of a statement, as the server names them to the performance schema.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// The wait callbacks do not report two kinds of waits for logs:
//
// - With `innodb_flush_log_at_trx_commit` = 1, a commit over the text protocol waits for its log before the reply is sent,
//   after the work and before the last event.
// - With a binary log, one commit of a group leads and the others wait for it; so do waits for a semi-synchronous replica
//   and for a cluster's certification.
//
// The server names each stage for the process list, and calls the performance schema's table of functions even when the
// performance schema is off. "Freeing items" begins once, when the work is done; "Commit" begins while a transaction, or a
// statement's part of it, commits. This module puts its own function into that table.
//
// Failure: a server that does not export the table, or names no stage, has no stages: slots are held during such waits until
// `flifo_stall_limit`.
#pragma once

#include "exports.h"

namespace flifo::stages {

enum class Stage : unsigned char {
  OTHER,
  // The client's statement has done its work. Not reported for statements inside it.
  WORK_DONE,
  // A commit begins, of a transaction or of a statement in it.
  COMMIT,
  // A commit is over, if there was one.
  COMMIT_END,
  // The thread sends the binary log to a replica. Its command does not end.
  SENDS_BINLOG,
};

// Calls `listener` where a thread begins a stage except OTHER. False if this server does not export its stages.
bool hook(void (*listener)(MYSQL_THD, Stage));
// A call may still run when this returns.
void unhook();
// Switches the stages off, so that they cost nothing, and on again. They stay on while any thread has something to call.
void pause();
void resume();
// Calls `then` once when this thread begins its next stage, or in `run_deferred`: never in the middle of an event. Without stages
// never. Until then every stage of every thread costs more.
void at_next_stage(void (*then)(MYSQL_THD));
// Calls what this thread has deferred, if anything.
void run_deferred();

}  // namespace flifo::stages
