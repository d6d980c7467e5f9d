// What a statement's text and the session's options say about it, where the server's public interface says no more.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// Text is only scanned, never parsed. Every question has a safe answer: a false "takes locks" costs a forced entry, a false
// "frees locks" is avoided, since the holder could then be refused while others wait for it.
#pragma once

#include "server.h"

#include <cstdint>

namespace flifo {

// Locks that a session keeps across its transactions. LOCK TABLES is not among them: the server reports it.
struct SessionLocks {
  enum Kind : unsigned char {
    NAMES = 1,     // GET_LOCK
    TABLES = 2,    // FLUSH TABLES WITH READ LOCK
    BACKUPS = 4,   // BACKUP STAGE, BACKUP LOCK
    HANDLERS = 8,  // HANDLER OPEN
  };
  // Sets of kinds.
  unsigned char taken, freed;
};

// A statement's text from its first word on. It need not end with NUL.
class Text {
 public:
  Text(const char *text, unsigned length);
  // Whether it sets the session's role.
  bool sets_role() const;
  // Whether a SELECT locks the rows it reads, by its last words. A false yes does no harm.
  bool locks_rows_read() const;
  // Whether it commits or rolls back a transaction, not only to a savepoint. No for text in a conditional comment, which
  // servers of other versions skip.
  bool ends_transaction() const;
  // The locks it takes and frees. A call inside a string does no harm. RELEASE_LOCK counts as freeing all names: another name
  // may remain, but more often the GET_LOCK before it failed.
  SessionLocks session_locks() const;
  // The same without names, by the first and last words only.
  SessionLocks locks_except_names() const;
  // The last call that frees names; null if there is none.
  const char *last_release_of_names() const;
  // Where its first word begins; null without a text.
  const char *begin() const { return text; }

  // Whether it ends a prepared transaction, possibly of another client.
  bool ends_prepared() const;
  // Whether it prepares a transaction or commits a prepared one. No for text in a conditional comment.
  bool commits_in_two_phases() const;
  // Whether it only begins a transaction. A compound statement may do more.
  bool only_begins() const;

 private:
  bool begins_with(const char *words) const;
  bool begins_with_word(const char *word) const;
  bool ends_with_words(const char *words) const;
  bool ends_with(const char *word) const;
  unsigned words_length() const;

  const char *text;
  unsigned length;
  // The first four characters in lower case; what is no letter may be altered. Only a filter.
  uint32_t head = 0;
  // It begins in a conditional comment.
  bool may_not_run = false;
};

// What lets locks outlive a statement: an open transaction or LOCK TABLES. By bits of the server's session options, which are
// the same in every MariaDB since 5.1.
class LockScope {
 public:
  explicit LockScope(MYSQL_THD thd) : options(thd_test_options(thd, BEGIN | NOT_AUTOCOMMIT | TABLE_LOCK)) {}
  // Nothing: locks end with the statement.
  bool is_statement() const { return options == 0; }
  bool has_transaction() const { return (options & ~TABLE_LOCK) != 0; }
  // A transaction that BEGIN has opened.
  bool has_begun_transaction() const { return (options & BEGIN) != 0; }
  // Without autocommit, and no BEGIN.
  bool is_implicit() const { return (options & ~TABLE_LOCK) == NOT_AUTOCOMMIT; }
  bool has_table_locks() const { return (options & TABLE_LOCK) != 0; }

 private:
  static constexpr long long NOT_AUTOCOMMIT = 1LL << 19, BEGIN = 1LL << 20, TABLE_LOCK = 1LL << 21;
  long long options;
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
