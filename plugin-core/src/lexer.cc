// SPDX-License-Identifier: GPL-2.0-only

#include "lexer.h"

#include <cstring>

namespace flifo {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_quote(char c) { return c == '\'' || c == '"' || c == '`'; }

// Whether a character can be part of a word. Bytes from 0x80 on are letters of names.
constexpr struct WordCharacters {
  bool are[256] = {};
  constexpr WordCharacters() {
    for (int c = 0; c < 256; c++)
      are[c] = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' || c >= 0x80;
  }
} WORD_CHARACTERS;

inline bool is_word_character(char c) { return WORD_CHARACTERS.are[static_cast<unsigned char>(c)]; }

}  // namespace

bool Token::equals(const char *text, const char *word, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (lower(text[i]) != word[i]) return false;
  return true;
}

Token Lexer::next() {
  skip_blanks();
  const char *begin = at;
  if (at == end) return {Token::Kind::END, begin, 0};
  if (is_quote(*at)) {
    at += quoted_length();
    return {*begin == '`' ? Token::Kind::NAME : Token::Kind::QUOTED, begin, static_cast<unsigned>(at - begin)};
  }
  if (!is_word_character(*at)) {
    at++;
    return {Token::Kind::SYMBOL, begin, 1};
  }
  while (at != end && is_word_character(*at)) at++;
  return {Token::Kind::WORD, begin, static_cast<unsigned>(at - begin)};
}

void Lexer::skip_blanks() {
  while (at != end) {
    // Most texts are words and single blanks.
    if (is_word_character(*at)) return;
    if (is_blank(*at))
      at++;
    else if (!skip_comment())
      return;
  }
}

// Skips a comment, or an edge of a conditional one. False if there is none here.
bool Lexer::skip_comment() {
  if (conditional && *at == '*' && follows(1, '/')) {
    conditional = false;
    at += 2;
    return true;
  }
  const bool has_dashes = *at == '-' && follows(1, '-') && (end - at == 2 || static_cast<unsigned char>(at[2]) <= ' ');
  if (*at == '#' || has_dashes) {
    skip_line();
    return true;
  }
  if (*at != '/' || !follows(1, '*')) return false;
  const unsigned edge = follows(2, '!') ? 3 : follows(2, 'M') && follows(3, '!') ? 4 : 0;
  if (edge != 0) {
    conditional = true;
    at += edge;
    while (at != end && is_digit(*at)) at++;
    return true;
  }
  at += 2;
  while (at != end && !(*at == '*' && follows(1, '/'))) at++;
  at = end - at >= 2 ? at + 2 : end;
  return true;
}

void Lexer::skip_line() {
  const void *newline = memchr(at, '\n', static_cast<size_t>(end - at));
  at = newline == nullptr ? end : static_cast<const char *>(newline) + 1;
}

// The length of the quoted text that begins here. A doubled quote does not end it: it reads as two texts side by side, which
// makes no difference to anybody.
unsigned Lexer::quoted_length() const {
  const char quote = *at;
  const char *to = at + 1;
  while (to != end && *to != quote) to += *to == '\\' && quote != '`' && end - to > 1 ? 2 : 1;
  return static_cast<unsigned>((to == end ? end : to + 1) - at);
}

}  // namespace flifo
