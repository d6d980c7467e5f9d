// SPDX-License-Identifier: GPL-2.0-only

#include "text.h"

#include <algorithm>
#include <cstring>

namespace flifo {
namespace {

// How much of a text is looked at for its last words.
constexpr unsigned TAIL = 96;

// How much of it may be comments behind those.
constexpr unsigned COMMENTS = 4096;

// In four characters, what letters have in lower case only.
constexpr uint32_t ANY_CASE = 0x20202020;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Whether a name goes on there.
bool is_of_name(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

bool begins(const char *text, unsigned length, const char *word) {
  const size_t word_length = strlen(word);
  if (length < word_length) return false;
  for (size_t i = 0; i < word_length; i++)
    if (lower(text[i]) != word[i]) return false;
  return true;
}

// The length of what opens or closes a comment that is run, at the beginning; 0 if it is none. Whether this server is of
// the version that it is for is not asked.
unsigned edge_of_run_comment(const char *text, unsigned length) {
  if (begins(text, length, "*/")) return 2;
  unsigned edge = begins(text, length, "/*!") ? 3 : begins(text, length, "/*m!") ? 4 : 0;
  while (edge != 0 && edge < length && is_digit(text[edge])) edge++;
  return edge;
}

// The length of the white space or comment at the beginning; 0 if there is none.
unsigned skipped(const char *text, unsigned length) {
  // Most texts are words.
  if (length == 0 || is_letter(text[0])) return 0;
  if (is_space(text[0])) return 1;
  if (const unsigned edge = edge_of_run_comment(text, length)) return edge;
  const bool is_block = begins(text, length, "/*");
  const bool is_line = text[0] == '#' || begins(text, length, "-- ");
  if (!is_block && !is_line) return 0;
  for (unsigned at = 1; at < length; at++) {
    if (is_line && text[at] == '\n') return at + 1;
    if (is_block && at > 2 && text[at] == '/' && text[at - 1] == '*') return at + 1;
  }
  return length;
}

// The length without white space and comments at the end; those that are run count as words, and so does what goes up to the
// end of a line. What stands in a string ends with its quote.
unsigned without_comments_behind(const char *text, unsigned length) {
  const unsigned least = length > COMMENTS ? length - COMMENTS : 0;
  for (;;) {
    while (length > least && is_space(text[length - 1])) length--;
    if (length < least + 4 || text[length - 2] != '*' || text[length - 1] != '/') return length;
    // A comment may have a second opening within: then it stays, as one that is longer does.
    unsigned at = length - 4;
    while (at > least && !begins(text + at, 2, "/*")) at--;
    if (!begins(text + at, 2, "/*") || edge_of_run_comment(text + at, length - at) != 0) return length;
    length = at;
  }
}

// Whether it begins with these words, in any case. A blank stands for all the white space and comments there.
bool begins_with_words(const char *text, unsigned length, const char *words) {
  unsigned at = 0;
  for (; *words != '\0'; words++) {
    if (*words != ' ') {
      if (at == length || lower(text[at]) != *words) return false;
      at++;
      continue;
    }
    const unsigned from = at;
    while (const unsigned skip = skipped(text + at, length - at)) at += skip;
    if (at == from) return false;
  }
  return true;
}

// Whether a function is called whose name is `before` until this place and `after` from there on. `hidden` is the answer if more
// white space and comments follow than are looked at: to their end for each name, a long text of names and comments that do not
// end would take a time of its square.
bool calls(const char *text, const char *at, const char *end, const char *before, const char *after, bool hidden) {
  constexpr long LOOKED_AT = 256;
  const auto before_length = static_cast<long>(strlen(before));
  if (at - text < before_length) return false;
  const char *name = at - before_length;
  if (name != text && is_of_name(name[-1])) return false;
  if (!begins(name, static_cast<unsigned>(at - name), before)) return false;
  if (!begins(at, static_cast<unsigned>(end - at), after)) return false;
  at += strlen(after);
  for (const char *from = at; at - from < LOOKED_AT;) {
    const unsigned skip = skipped(at, static_cast<unsigned>(std::min<long>(end - at, LOOKED_AT)));
    if (skip == 0) return at != end && *at == '(';
    at += skip;
  }
  return hidden;
}

// Every low line is looked at, which are found fast also in a text of megabytes, for the functions whose name has it there.
template <class Look>
void at_low_lines(const char *text, const char *end, Look look) {
  for (const char *at = text; at != end; at++) {
    at = static_cast<const char *>(memchr(at, '_', static_cast<size_t>(end - at)));
    if (at == nullptr) return;
    look(at);
  }
}

// Where a call may be hidden, a lock is rather seen taken than freed.
bool takes_name(const char *text, const char *at, const char *end) {
  return calls(text, at, end, "get", "_lock", true);
}

bool frees_names(const char *text, const char *at, const char *end) {
  return calls(text, at, end, "release", "_lock", false) || calls(text, at, end, "release", "_all_locks", false);
}

}  // namespace

Text::Text(const char *text, unsigned length) : text(text), length(length) {
  while (const unsigned skip = skipped(this->text, this->length)) {
    if (edge_of_run_comment(this->text, this->length) != 0) may_not_run = true;
    this->text += skip;
    this->length -= skip;
  }
  words_length = without_comments_behind(this->text, this->length);
  if (this->length != 0) memcpy(&head, this->text, std::min<size_t>(this->length, sizeof head));
  head |= ANY_CASE;
}

// Whether it begins with these words, given in lower case, in any case, whatever white space and comments are between them; also in
// a comment that is run. Every statement is asked this some ten times, and mostly its first letters are the answer: what they are
// compared with is known when this is compiled.
[[gnu::always_inline]] inline bool Text::begins_with(const char *words) const {
  unsigned char first[sizeof head] = {}, ones[sizeof head] = {};
#pragma GCC unroll 4
  for (unsigned i = 0; i < sizeof head; i++) {
    if (words[i] == '\0' || words[i] == ' ') break;
    first[i] = static_cast<unsigned char>(words[i] | 0x20);
    ones[i] = 0xff;
  }
  uint32_t wanted, mask;
  memcpy(&wanted, first, sizeof wanted);
  memcpy(&mask, ones, sizeof mask);
  return ((head ^ wanted) & mask) == 0 && begins_with_words(text, length, words);
}

// Whether this is its very first word.
[[gnu::always_inline]] inline bool Text::begins_with_word(const char *word) const {
  const size_t word_length = strlen(word);
  return begins_with(word) && (length == word_length || !is_of_name(text[word_length]));
}

// Whether these are among its last words.
bool Text::ends_with_words(const char *words) const {
  for (unsigned at = words_length > TAIL ? words_length - TAIL : 0; at < words_length; at++)
    if (lower(text[at]) == *words && begins_with_words(text + at, words_length - at, words)) return true;
  return false;
}

// Whether this is its very last word.
bool Text::ends_with(const char *word) const {
  const auto word_length = static_cast<unsigned>(strlen(word));
  for (unsigned at = words_length > TAIL ? words_length - TAIL : 1; at < words_length; at++) {
    if (is_of_name(text[at - 1]) || !begins(text + at, words_length - at, word)) continue;
    unsigned after = at + word_length;
    while (const unsigned skip = skipped(text + after, words_length - after)) after += skip;
    if (after == words_length) return true;
  }
  return false;
}

SessionLocks Text::locks_of_names() const {
  SessionLocks locks{0, 0};
  const char *end = text + length;
  at_low_lines(text, end, [&](const char *at) {
    if (takes_name(text, at, end)) locks.taken = SessionLocks::NAMES;
    if (frees_names(text, at, end)) locks.freed = SessionLocks::NAMES;
  });
  return locks;
}

const char *Text::frees_names_last() const {
  const char *last = nullptr, *end = text + length;
  at_low_lines(text, end, [&](const char *at) {
    if (frees_names(text, at, end)) last = at;
  });
  return last;
}

// Asked of each SELECT of a transaction.
bool Text::locks_what_it_reads() const {
  for (unsigned at = words_length > TAIL ? words_length - TAIL : 0; at < words_length; at++) {
    const char first = lower(text[at]);
    if (first != 'f' && first != 'i') continue;
    if (begins_with_words(text + at, words_length - at, first == 'f' ? "for update" : "in share mode")) return true;
  }
  return false;
}

bool Text::ends_transaction() const {
  if (may_not_run) return false;
  if (!begins_with_word("rollback")) return begins_with_word("commit");
  for (unsigned at = sizeof "rollback" - 1; at < length; at++)
    if (!is_letter(text[at - 1]) && begins(text + at, length - at, "to")) return false;
  return true;
}

bool Text::sets_role() const {
  return begins_with("set role") || (begins_with("set statement") && ends_with_words("for set role"));
}

SessionLocks Text::session_locks() const {
  const SessionLocks names = locks_of_names();
  SessionLocks locks = locks_but_names();
  locks.taken |= names.taken;
  locks.freed |= names.freed;
  return locks;
}

SessionLocks Text::locks_but_names() const {
  SessionLocks locks{0, 0};
  if (begins_with("flush ") && ends_with_words("read lock")) locks.taken |= SessionLocks::TABLES;
  if (begins_with("unlock ")) locks.freed |= SessionLocks::TABLES;
  if (begins_with("backup stage start") || begins_with("backup lock")) locks.taken |= SessionLocks::BACKUPS;
  if (begins_with("backup stage end") || begins_with("backup unlock")) locks.freed |= SessionLocks::BACKUPS;
  // One that is read was opened.
  if (begins_with("handler ")) (ends_with("close") ? locks.freed : locks.taken) |= SessionLocks::HANDLERS;
  return locks;
}

bool Text::ends_prepared() const { return begins_with("xa commit") || begins_with("xa rollback"); }

bool Text::commits_in_two_phases() const {
  return !may_not_run && (begins_with("xa prepare") || begins_with("xa commit"));
}

bool Text::only_reads() const {
  if (may_not_run) return false;
  if (begins_with_word("select") || begins_with_word("with")) return !locks_what_it_reads();
  return begins_with("start transaction") || begins_with("show ") || begins_with("use ") ||
         ((begins_with_word("begin") || begins_with("set ")) && only_begins());
}

bool Text::has_more_than_one() const {
  const void *semicolon = memchr(text, ';', words_length);
  return semicolon != nullptr && semicolon != text + words_length - 1;
}

bool Text::only_begins() const {
  constexpr size_t BEGIN_WORK = sizeof "begin work" - 1;
  if (begins_with("begin")) return words_length <= BEGIN_WORK;
  // What SET STATEMENT is for may be anything.
  if (begins_with("set ")) return !begins_with("set statement ");
  return begins_with("start transaction") || begins_with("xa ");
}

}  // namespace flifo
