// What the server's public interface says about a session and its statement: by bits and numbers that its headers do not name.
//
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "server.h"

namespace flifo {

// What lets locks outlive a statement: an open transaction, or locks of the session. The transaction by bits of the server's
// session options, which are the same in every MariaDB since 5.1. The locks of the session are metadata locks of explicit
// duration: of LOCK TABLES, FLUSH TABLES, GET_LOCK, BACKUP and HANDLER. The server knows whether there are any.
class LockScope {
 public:
  explicit LockScope(MYSQL_THD thd) : options(thd_test_options(thd, BEGIN | NOT_AUTOCOMMIT)), session_locks(server::has_session_locks(thd)) {}
  // Nothing: locks end with the statement.
  bool is_statement() const { return options == 0 && !session_locks; }
  bool has_transaction() const { return options != 0; }
  // A transaction that BEGIN has opened.
  bool has_begun_transaction() const { return (options & BEGIN) != 0; }
  // Without autocommit, and no BEGIN.
  bool is_implicit() const { return options == NOT_AUTOCOMMIT; }
  bool has_session_locks() const { return session_locks; }

 private:
  static constexpr long long NOT_AUTOCOMMIT = 1LL << 19, BEGIN = 1LL << 20;
  long long options;
  bool session_locks;
};

// What the statement under way does, by the server's numbers of statements, in MariaDB 10.11 to 11.8.
class Command {
 public:
  explicit Command(MYSQL_THD thd) : number(thd_sql_command(thd)) {}
  bool is_select() const { return number == 0; }
  bool is_commit() const { return number == 54; }
  bool is_rollback() const { return number == 52; }
  bool is_execute() const { return number == 97; }

 private:
  int number;
};

}  // namespace flifo
