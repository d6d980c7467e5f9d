// Places are given up while the server waits.
//
// SPDX-License-Identifier: GPL-2.0-only

#ifndef FLIFO_WAITS_H
#define FLIFO_WAITS_H

#include "connection.h"

namespace flifo::waits {

// What the server calls around a wait; `kind` is a `thd_wait_type`.
void begin(MYSQL_THD thd, int kind);
void end(MYSQL_THD thd);

// A commit, of whose waits the callbacks do not tell: with a binary log, or in a cluster, it is taken for one wait.
void commit_begins(MYSQL_THD thd);
void commit_is_over(MYSQL_THD thd);

// A statement that does no more than that, and of which the server does not tell when: until it is over.
void commit_begins(Connection &connection, MYSQL_THD thd);
void statement_is_over(Connection &connection);

}  // namespace flifo::waits

#endif
