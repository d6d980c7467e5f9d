// SPDX-License-Identifier: GPL-2.0-only

#include "text.h"

#include <cstring>

namespace flifo {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_letter(char c) { return lower(c) >= 'a' && lower(c) <= 'z'; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

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
  if (length == 0) return 0;
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

}  // namespace

Text::Text(const char *text, unsigned length) : text(text), length(length) {
  while (const unsigned skip = skipped(this->text, this->length)) {
    if (edge_of_run_comment(this->text, this->length) != 0) may_not_run = true;
    this->text += skip;
    this->length -= skip;
  }
}

bool Text::begins_with(const char *words) const { return begins_with_words(text, length, words); }

bool Text::locks_what_it_reads() const {
  constexpr unsigned TAIL = 96;
  for (unsigned at = length > TAIL ? length - TAIL : 0; at < length; at++)
    if (begins_with_words(text + at, length - at, "for update") ||
        begins_with_words(text + at, length - at, "in share mode"))
      return true;
  return false;
}

bool Text::ends_transaction() const {
  if (may_not_run) return false;
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
