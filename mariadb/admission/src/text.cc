// SPDX-License-Identifier: GPL-2.0-only

#include "text.h"

#include <cstring>

namespace flifo {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }

bool begins(const char *text, unsigned length, const char *word) {
  const size_t word_length = strlen(word);
  if (length < word_length) return false;
  for (size_t i = 0; i < word_length; i++)
    if (lower(text[i]) != word[i]) return false;
  return true;
}

// The length of the white space or comment at the beginning; 0 if there is none.
unsigned skipped(const char *text, unsigned length) {
  if (length == 0) return 0;
  if (is_space(text[0])) return 1;
  const bool is_block = begins(text, length, "/*") && !begins(text, length, "/*!");
  const bool is_line = text[0] == '#' || begins(text, length, "-- ");
  if (!is_block && !is_line) return 0;
  for (unsigned at = 1; at < length; at++) {
    if (is_line && text[at] == '\n') return at + 1;
    if (is_block && at > 2 && text[at] == '/' && text[at - 1] == '*') return at + 1;
  }
  return length;
}

}  // namespace

Text::Text(const char *text, unsigned length) : text(text), length(length) {
  while (const unsigned skip = skipped(this->text, this->length)) {
    this->text += skip;
    this->length -= skip;
  }
}

bool Text::begins_with(const char *lower_case) const { return begins(text, length, lower_case); }

bool Text::locks_what_it_reads() const {
  constexpr unsigned TAIL = 96;
  for (unsigned at = length > TAIL ? length - TAIL : 0; at < length; at++)
    if (begins(text + at, length - at, "for update") || begins(text + at, length - at, "in share mode")) return true;
  return false;
}

bool Text::ends_transaction() const {
  if (!begins_with("rollback")) return begins_with("commit");
  for (unsigned at = sizeof "rollback" - 1; at < length; at++)
    if (!is_letter(text[at - 1]) && begins(text + at, length - at, "to")) return false;
  return true;
}

bool Text::only_begins() const {
  constexpr size_t BEGIN_WORK = sizeof "begin work" - 1;
  if (begins_with("begin")) return length <= BEGIN_WORK;
  return begins_with("start transaction") || begins_with("set ") || begins_with("xa ");
}

}  // namespace flifo
