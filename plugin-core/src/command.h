// What a server says about a session and its statement, in terms that all servers share.
//
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

namespace flifo {

// What lets locks outlive a statement: an open transaction, or locks of the session. These are metadata locks of explicit duration:
// of LOCK TABLES, FLUSH TABLES, GET_LOCK, BACKUP and HANDLER.
class LockScope {
 public:
  // `begun`: BEGIN has opened a transaction. `autocommits`: each statement outside of one is a transaction of its own.
  LockScope(bool begun, bool autocommits, bool session_locks) : begun(begun), autocommits(autocommits), session_locks(session_locks) {}
  // Nothing: locks end with the statement.
  bool is_statement() const { return !has_transaction() && !session_locks; }
  bool has_transaction() const { return begun || !autocommits; }
  // A transaction that BEGIN has opened.
  bool has_begun_transaction() const { return begun; }
  // Without autocommit, and no BEGIN.
  bool is_implicit() const { return !begun && !autocommits; }
  bool has_session_locks() const { return session_locks; }

 private:
  bool begun, autocommits, session_locks;
};

// What the statement under way does.
class Command {
 public:
  enum class Kind : unsigned char { OTHER, SELECT, COMMIT, ROLLBACK, EXECUTE };
  explicit Command(Kind kind) : kind(kind) {}
  bool is_select() const { return kind == Kind::SELECT; }
  bool is_commit() const { return kind == Kind::COMMIT; }
  bool is_rollback() const { return kind == Kind::ROLLBACK; }
  // EXECUTE of a prepared statement by its name.
  bool is_execute() const { return kind == Kind::EXECUTE; }

 private:
  Kind kind;
};

}  // namespace flifo
