// SPDX-License-Identifier: GPL-2.0-only

#include "session.h"

#include "lexer.h"

#include <strings.h>

#include <algorithm>
#include <cstring>

namespace flifo {
namespace {

// Whether the text calls a function of named locks, perhaps; most texts are long before they are split into tokens.
bool may_name_locks(const char *text, const char *end) {
  constexpr size_t LENGTH = sizeof "_lock" - 1;
  const char *at = text;
  while (at != end && (at = static_cast<const char *>(memchr(at, '_', static_cast<size_t>(end - at)))) != nullptr) {
    if (static_cast<size_t>(end - at) >= LENGTH && strncasecmp(at, "_lock", LENGTH) == 0) return true;
    at++;
  }
  return false;
}

// How many calls of a function the text has.
template <size_t SIZE>
unsigned calls(const char *text, const char *end, const char (&name)[SIZE]) {
  unsigned count = 0;
  Lexer lexer(text, end);
  for (Token before = lexer.next(); !before.is_end();) {
    const Token token = lexer.next();
    count += before.is(name) && token.is('(');
    before = token;
  }
  return count;
}

// Whether a statement has this word; `lexer` is somewhere in it.
template <size_t SIZE>
bool has_word(Lexer lexer, const char (&word)[SIZE]) {
  for (Token token = lexer.next(); !token.is_end() && !token.is(';'); token = lexer.next())
    if (token.is(word)) return true;
  return false;
}

void subtract(unsigned &from, unsigned number) { from -= std::min(from, number); }

}  // namespace

void Session::see_begin(const abi::Text &text) {
  const char *const end = text.str + text.length;
  Lexer lexer(text.str, end);
  const Token first = lexer.next();
  if (first.is("flush")) has_read_lock |= has_word(lexer, "read");
  if (first.is("lock")) has_backup_lock |= lexer.next().is("instance");
  if (first.is("handler")) handlers += has_word(lexer, "open");
  if (may_name_locks(text.str, end)) names += calls(text.str, end, "get_lock");
}

void Session::see_end(const abi::Text &text) {
  if (!has_locks()) return;
  const char *const end = text.str + text.length;
  Lexer lexer(text.str, end);
  const Token first = lexer.next();
  if (first.is("unlock")) (lexer.next().is("instance") ? has_backup_lock : has_read_lock) = false;
  if (first.is("handler") && has_word(lexer, "close")) subtract(handlers, 1);
  if (!may_name_locks(text.str, end)) return;
  if (calls(text.str, end, "release_all_locks") != 0) names = 0;
  subtract(names, calls(text.str, end, "release_lock"));
}

void Session::reset_locks() {
  names = handlers = 0;
  has_read_lock = has_backup_lock = false;
}

}  // namespace flifo
