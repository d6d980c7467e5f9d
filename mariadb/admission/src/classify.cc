// SPDX-License-Identifier: GPL-2.0-only

#include "classify.h"

#include <algorithm>
#include <cstring>

namespace flifo {
namespace {

// The last words of a text are searched in this many bytes.
constexpr unsigned TAIL = 96;

// Comments after the last words are skipped up to this many bytes.
constexpr unsigned COMMENTS = 4096;

// The bit that lower case letters have and upper case letters lack, four times.
constexpr uint32_t LOWER_CASE = 0x20202020;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
// Whether the character can be part of a name.
bool is_name_character(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

bool begins(const char *text, unsigned length, const char *word) {
  const size_t word_length = strlen(word);
  if (length < word_length) return false;
  for (size_t i = 0; i < word_length; i++)
    if (lower(text[i]) != word[i]) return false;
  return true;
}

// The length of the opening or closing of a conditional comment at the beginning; 0 if there is none. The version in it is
// not compared with the server's.
unsigned conditional_edge(const char *text, unsigned length) {
  if (begins(text, length, "*/")) return 2;
  unsigned edge = begins(text, length, "/*!") ? 3 : begins(text, length, "/*m!") ? 4 : 0;
  while (edge != 0 && edge < length && is_digit(text[edge])) edge++;
  return edge;
}

// The length of the white space or comment at the beginning; 0 if there is none.
unsigned blank_length(const char *text, unsigned length) {
  // Most texts are words.
  if (length == 0 || is_letter(text[0])) return 0;
  if (is_space(text[0])) return 1;
  if (const unsigned edge = conditional_edge(text, length)) return edge;
  const bool is_block = begins(text, length, "/*");
  const bool is_line = text[0] == '#' || begins(text, length, "-- ");
  if (!is_block && !is_line) return 0;
  for (unsigned at = 1; at < length; at++) {
    if (is_line && text[at] == '\n') return at + 1;
    if (is_block && at > 2 && text[at] == '/' && text[at - 1] == '*') return at + 1;
  }
  return length;
}

// The length without white space and block comments at the end. Conditional comments and comments to the end of a line count
// as words.
unsigned without_trailing_comments(const char *text, unsigned length) {
  const unsigned least = length > COMMENTS ? length - COMMENTS : 0;
  for (;;) {
    while (length > least && is_space(text[length - 1])) length--;
    if (length < least + 4 || text[length - 2] != '*' || text[length - 1] != '/') return length;
    // A comment with a second opening inside is kept, and so is a longer one.
    unsigned at = length - 4;
    while (at > least && !begins(text + at, 2, "/*")) at--;
    if (!begins(text + at, 2, "/*") || conditional_edge(text + at, length - at) != 0) return length;
    length = at;
  }
}

// Whether it begins with these words in any case. A blank stands for any white space and comments.
bool begins_with_words(const char *text, unsigned length, const char *words) {
  unsigned at = 0;
  for (; *words != '\0'; words++) {
    if (*words != ' ') {
      if (at == length || lower(text[at]) != *words) return false;
      at++;
      continue;
    }
    const unsigned from = at;
    while (const unsigned skip = blank_length(text + at, length - at)) at += skip;
    if (at == from) return false;
  }
  return true;
}

// Whether a function is called whose name is `before` up to `at` and `after` from there on. `hidden` is the answer when the
// parenthesis is not found within a bound: without the bound a long text of names and open comments takes quadratic time.
bool calls(const char *text, const char *at, const char *end, const char *before, const char *after, bool hidden) {
  constexpr long BOUND = 256;
  const auto before_length = static_cast<long>(strlen(before));
  if (at - text < before_length) return false;
  const char *name = at - before_length;
  if (name != text && is_name_character(name[-1])) return false;
  if (!begins(name, static_cast<unsigned>(at - name), before)) return false;
  if (!begins(at, static_cast<unsigned>(end - at), after)) return false;
  at += strlen(after);
  for (const char *from = at; at - from < BOUND;) {
    const unsigned skip = blank_length(at, static_cast<unsigned>(std::min<long>(end - at, BOUND)));
    if (skip == 0) return at != end && *at == '(';
    at += skip;
  }
  return hidden;
}

// Visits every underscore, which the names of all functions in question have: fast in a text of megabytes, too.
template <class Look>
void at_underscores(const char *text, const char *end, Look look) {
  for (const char *at = text; at != end; at++) {
    at = static_cast<const char *>(memchr(at, '_', static_cast<size_t>(end - at)));
    if (at == nullptr) return;
    look(at);
  }
}

// A call that may be hidden counts as taking a lock and not as freeing one.
bool takes_name(const char *text, const char *at, const char *end) {
  return calls(text, at, end, "get", "_lock", true);
}

bool frees_names(const char *text, const char *at, const char *end) {
  return calls(text, at, end, "release", "_lock", false) || calls(text, at, end, "release", "_all_locks", false);
}

}  // namespace

Text::Text(const char *text, unsigned length) : text(text), length(length) {
  while (const unsigned skip = blank_length(this->text, this->length)) {
    if (conditional_edge(this->text, this->length) != 0) may_not_run = true;
    this->text += skip;
    this->length -= skip;
  }
  if (this->length != 0) memcpy(&head, this->text, std::min<size_t>(this->length, sizeof head));
  head |= LOWER_CASE;
}

// Up to where last words are searched.
unsigned Text::words_length() const { return without_trailing_comments(text, length); }

// Whether it begins with these words, given in lower case, whatever white space and comments are between them. Called about
// ten times a statement, so the first letters are compared as one number that the compiler knows.
[[gnu::always_inline]] inline bool Text::begins_with(const char *words) const {
  unsigned char first[sizeof head] = {}, ones[sizeof head] = {};
#pragma GCC unroll 4
  for (unsigned i = 0; i < sizeof head; i++) {
    if (words[i] == '\0' || words[i] == ' ') break;
    first[i] = static_cast<unsigned char>(words[i] | 0x20);
    ones[i] = 0xff;
  }
  uint32_t expected, mask;
  memcpy(&expected, first, sizeof expected);
  memcpy(&mask, ones, sizeof mask);
  return ((head ^ expected) & mask) == 0 && begins_with_words(text, length, words);
}

// Whether this is its very first word.
[[gnu::always_inline]] inline bool Text::begins_with_word(const char *word) const {
  const size_t word_length = strlen(word);
  return begins_with(word) && (length == word_length || !is_name_character(text[word_length]));
}

// Whether these are among its last words.
bool Text::ends_with_words(const char *words) const {
  const unsigned end = words_length();
  for (unsigned at = end > TAIL ? end - TAIL : 0; at < end; at++)
    if (lower(text[at]) == *words && begins_with_words(text + at, end - at, words)) return true;
  return false;
}

// Whether this is its very last word.
bool Text::ends_with(const char *word) const {
  const auto word_length = static_cast<unsigned>(strlen(word));
  const unsigned end = words_length();
  for (unsigned at = end > TAIL ? end - TAIL : 1; at < end; at++) {
    if (is_name_character(text[at - 1]) || !begins(text + at, end - at, word)) continue;
    unsigned after = at + word_length;
    while (const unsigned skip = blank_length(text + after, end - after)) after += skip;
    if (after == end) return true;
  }
  return false;
}

const char *Text::last_release_of_names() const {
  const char *last = nullptr, *end = text + length;
  at_underscores(text, end, [&](const char *at) {
    if (frees_names(text, at, end)) last = at;
  });
  return last;
}

// Called for each SELECT of a transaction.
bool Text::locks_rows_read() const {
  const unsigned end = words_length();
  for (unsigned at = end > TAIL ? end - TAIL : 0; at < end; at++) {
    const char first = lower(text[at]);
    if (first != 'f' && first != 'i') continue;
    if (begins_with_words(text + at, end - at, first == 'f' ? "for update" : "in share mode")) return true;
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
  SessionLocks locks = locks_except_names();
  const char *end = text + length;
  at_underscores(text, end, [&](const char *at) {
    if (takes_name(text, at, end)) locks.taken |= SessionLocks::NAMES;
    if (frees_names(text, at, end)) locks.freed |= SessionLocks::NAMES;
  });
  return locks;
}

SessionLocks Text::locks_except_names() const {
  SessionLocks locks{0, 0};
  if (begins_with("flush ") && ends_with_words("read lock")) locks.taken |= SessionLocks::TABLES;
  if (begins_with("unlock ")) locks.freed |= SessionLocks::TABLES;
  if (begins_with("backup stage start") || begins_with("backup lock")) locks.taken |= SessionLocks::BACKUPS;
  if (begins_with("backup stage end") || begins_with("backup unlock")) locks.freed |= SessionLocks::BACKUPS;
  // A handler that is read was opened before.
  if (begins_with("handler ")) (ends_with("close") ? locks.freed : locks.taken) |= SessionLocks::HANDLERS;
  return locks;
}

bool Text::ends_prepared() const { return begins_with("xa commit") || begins_with("xa rollback"); }

bool Text::commits_in_two_phases() const {
  return !may_not_run && (begins_with("xa prepare") || begins_with("xa commit"));
}

bool Text::only_begins() const {
  constexpr size_t BEGIN_WORK = sizeof "begin work" - 1;
  if (begins_with("begin")) return words_length() <= BEGIN_WORK;
  // SET STATEMENT runs any statement.
  if (begins_with("set ")) return !begins_with("set statement ");
  return begins_with("start transaction") || begins_with("xa ");
}

}  // namespace flifo
