// What this server's part keeps of a session: the statements under way, and locks that outlive transactions.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// The server has an option bit for LOCK TABLES. It exports nothing that shows other locks of a session, so texts must:
//
//   begins to hold                       holds no longer
//   GET_LOCK                             as many RELEASE_LOCK, or RELEASE_ALL_LOCKS
//   HANDLER .. OPEN                      as many HANDLER .. CLOSE
//   FLUSH TABLES .. WITH READ LOCK       UNLOCK TABLES
//   LOCK INSTANCE FOR BACKUP             UNLOCK INSTANCE
//
// A reset of the connection and a change of user end all. Texts inside procedures and triggers count, too.
//
// Failure: a session whose GET_LOCK got no lock counts as a holder until it calls RELEASE_LOCK. A session is taken for no holder if it
// calls RELEASE_LOCK for a lock it does not have, or GET_LOCK where the server reports no statement (IF in a procedure, RETURN).
#pragma once

#include "abi.h"
#include "connection.h"

namespace flifo {

struct Session {
  // The statement of the first level, by number. 0: none yet.
  unsigned long long number;
  // Statements under way: EXECUTE has the statement it runs inside it.
  unsigned depth;
  unsigned names, handlers;
  bool has_read_lock, has_backup_lock;
  // A command has ended, so `init_connect` has, too.
  bool has_ended_command;

  // A statement with this text begins; has ended without an error.
  void see_begin(const abi::Text &text);
  void see_end(const abi::Text &text);
  // The server has freed everything.
  void reset_locks();
  bool has_locks() const { return names != 0 || handlers != 0 || has_read_lock || has_backup_lock; }
};
static_assert(sizeof(Session) <= Connection::OF_SERVER_SIZE);

// All zero in a new connection.
inline Session &session_of(Connection &connection) { return *reinterpret_cast<Session *>(connection.of_server); }

}  // namespace flifo
