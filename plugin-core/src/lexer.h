// Splits a statement's text into tokens: the only place that knows comments, quotes and words.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// White space and comments separate tokens and are skipped. A conditional comment (`/*! .. */`, `/*M! .. */`) is read as if
// its edges were not there, since this server may run what is in it; `in_conditional` tells. The version in it is not compared
// with the server's.
//
// Failure: an open comment or quote ends with the text. Two modes of `sql_mode` are not known here: a text in double quotes is
// QUOTED, a name or a string, and a backslash always escapes.
#pragma once

#include <cstddef>

namespace flifo {

struct Token {
  enum class Kind : unsigned char {
    END,
    WORD,    // a keyword, a name or a number without quotes
    NAME,    // in backticks
    QUOTED,  // in single or double quotes
    SYMBOL,  // any other character
  };

  Kind kind;
  // With its quotes.
  const char *begin;
  unsigned length;

  bool is_end() const { return kind == Kind::END; }
  // Whether it is this word, given in lower case. Asked about twenty times a statement: the length decides most of them.
  template <size_t SIZE>
  bool is(const char (&word)[SIZE]) const {
    return kind == Kind::WORD && length == SIZE - 1 && equals(begin, word, SIZE - 1);
  }
  bool is(char symbol) const { return kind == Kind::SYMBOL && *begin == symbol; }
  // Whether it is this name, given in lower case, with quotes or without.
  template <size_t SIZE>
  bool is_named(const char (&name)[SIZE]) const {
    const bool has_quotes = kind == Kind::NAME || kind == Kind::QUOTED;
    return is(name) || (has_quotes && length == SIZE + 1 && equals(begin + 1, name, SIZE - 1));
  }

 private:
  static bool equals(const char *text, const char *word, size_t length);
};

class Lexer {
 public:
  // `conditional`: the text begins in a conditional comment.
  Lexer(const char *text, const char *end, bool conditional = false) : at(text), end(end), conditional(conditional) {}
  Token next();
  // Whether the token read last stands in a conditional comment.
  bool in_conditional() const { return conditional; }

 private:
  void skip_blanks();
  bool skip_comment();
  void skip_line();
  unsigned quoted_length() const;
  bool follows(unsigned offset, char symbol) const { return end - at > offset && at[offset] == symbol; }

  const char *at, *end;
  bool conditional;
};

}  // namespace flifo
