// A look at a statement's text, where the public interface says no more.
//
// SPDX-License-Identifier: GPL-2.0-only

#ifndef FLIFO_TEXT_H
#define FLIFO_TEXT_H

namespace flifo {

// A statement's text, without the white space and comments before its first word. It need not end with NUL.
class Text {
 public:
  Text(const char *text, unsigned length);

  // Whether it begins with these words, given in lower case, in any case, whatever white space and comments are between
  // them; also in a comment that is run.
  bool begins_with(const char *words) const;

  // Whether one of its last words says that a SELECT locks what it reads. Seeing one where there is none does no
  // harm.
  bool locks_what_it_reads() const;

  // Whether it commits a transaction or rolls it back, and not only to a savepoint. Not if it stands in a comment that is
  // run, which servers of other versions skip.
  bool ends_transaction() const;

  // Whether the statement does no more than begin a transaction. A compound statement that begins one may write.
  bool only_begins() const;

 private:
  const char *text;
  unsigned length;
  bool may_not_run = false;
};

}  // namespace flifo

#endif
