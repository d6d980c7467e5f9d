// What a statement's text says about it, where the server's public interface says no more.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// Text is split into tokens and never parsed. `SET STATEMENT .. FOR` is skipped: the statement behind it counts. The server
// reports locks that outlive a transaction (`LockScope`), so no text is searched for them.
//
//   purpose  statements                                                          when no slot is free
//   URGENT   KILL, SHUTDOWN, SHOW, USE, COMMIT, ROLLBACK, XA except XA START,    enters by force
//            UNLOCK, BACKUP STAGE END, BACKUP UNLOCK, HANDLER .. CLOSE,
//            RELEASE_LOCK outside of tables; STOP, START, RESET and CHANGE of
//            replicas; SET and SELECT of variables only
//   MINOR    SELECT of constants and calls without arguments, EXPLAIN,           queues, is never refused
//            DESCRIBE, HELP, FLUSH, BACKUP
//   WORK     any other                                                           queues, may be refused
#pragma once

#include "lexer.h"

namespace flifo {

enum class Purpose : unsigned char { WORK, MINOR, URGENT };

// A statement's text from its first word on, possibly with further statements behind it. It need not end with NUL.
class Text {
 public:
  Text(const char *text, unsigned length);
  Purpose purpose() const;
  // Whether it sets the session's role.
  bool sets_role() const { return begins_with("set", "role"); }
  // Whether a SELECT locks the rows it reads.
  bool locks_rows_read() const;
  // Whether it commits or rolls back a transaction, not only to a savepoint. No for text in a conditional comment, which
  // servers of other versions skip.
  bool ends_transaction() const;
  // Whether it prepares a transaction or commits a prepared one. No for text in a conditional comment.
  bool commits_in_two_phases() const;
  // Whether it is INSTALL of this plugin.
  bool installs_flifo() const;
  // Whether it only begins a transaction. A compound statement may do more.
  bool only_begins() const;

 private:
  template <size_t SIZE>
  bool begins_with(const char (&word)[SIZE]) const {
    return first.is(word);
  }
  template <size_t SIZE, size_t SECOND_SIZE>
  bool begins_with(const char (&word)[SIZE], const char (&second)[SECOND_SIZE]) const {
    return first.is(word) && after_first().next().is(second);
  }
  template <class... Words>
  bool begins_with_any_of(const Words &...words) const {
    return (first.is(words) || ...);
  }
  bool rolls_back_to_savepoint() const;
  bool frees_session_locks() const;
  Lexer after_first() const { return {first.begin + first.length, end, may_not_run}; }
  Purpose purpose_of_select() const;
  Purpose purpose_of_set() const;

  Token first;
  const char *end;
  // It begins in a conditional comment.
  bool may_not_run;
};

}  // namespace flifo
