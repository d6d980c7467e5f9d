// A look at a statement's text, where the public interface says no more.
//
// SPDX-License-Identifier: GPL-2.0-only

#ifndef FLIFO_TEXT_H
#define FLIFO_TEXT_H

#include <cstdint>

namespace flifo {

// What a statement does to locks that its session keeps whatever becomes of its transactions. LOCK TABLES is not among them: of
// that the server tells.
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

// A statement's text, without the white space and comments before its first word. It need not end with NUL.
class Text {
 public:
  Text(const char *text, unsigned length);

  // Whether it sets the session's role.
  bool sets_role() const;

  // Whether one of its last words says that a SELECT locks what it reads. Seeing one where there is none does no
  // harm.
  bool locks_what_it_reads() const;

  // Whether it commits a transaction or rolls it back, and not only to a savepoint. Not if it stands in a comment that is
  // run, which servers of other versions skip.
  bool ends_transaction() const;

  // As far as the text says. A call that stands in a string does no harm. RELEASE_LOCK counts as freeing all names: another may
  // be left, but more often the GET_LOCK before got none.
  SessionLocks session_locks() const;

  // The same without names: those are looked for in the whole text, for these its first and last words are enough.
  SessionLocks locks_but_names() const;

  // Where it last calls what frees names; null if nowhere.
  const char *frees_names_last() const;

  // Where its first word is. Null if there is no text.
  const char *begin() const { return text; }

  // Whether it ends a prepared transaction, which may be another's: its client has left it behind.
  bool ends_prepared() const;

  // Whether it prepares a transaction, or commits one that is prepared. Not if it stands in a comment that is run.
  bool commits_in_two_phases() const;

  // Whether it changes no rows and locks none, as far as the text says: a function that it calls may. Not if it stands in a comment that
  // is run.
  bool only_reads() const;

  // Whether another statement may follow in the text; a semicolon in a string is taken for one.
  bool has_more_than_one() const;

  // Whether the statement does no more than begin a transaction. A compound statement that begins one may write.
  bool only_begins() const;

 private:
  bool begins_with(const char *words) const;
  bool begins_with_word(const char *word) const;
  bool ends_with_words(const char *words) const;
  bool ends_with(const char *word) const;
  SessionLocks locks_of_names() const;

  const char *text;
  unsigned length;
  // Its first four characters, blanks behind its end, each with the bit that letters have in lower case; other characters may have
  // become others. What seems to begin with some word is looked at again.
  uint32_t head = 0;
  // Up to where its last words are looked for: comments in `/* */` are behind, such as clients put there for tracing, if they are
  // no longer than some thousand bytes. Of one that goes to the end of its line the last words are words.
  unsigned words_length;
  bool may_not_run = false;
};

}  // namespace flifo

#endif
