// SPDX-License-Identifier: GPL-2.0-only

#include "text.h"

namespace flifo {
namespace {

// A SELECT with more tokens before its FROM counts as work.
constexpr unsigned SIMPLE_TOKENS_MAX = 64;

bool ends_statement(const Token &token) { return token.is_end() || token.is(';'); }

// The first word of the statement that `SET STATEMENT` runs; `lexer` is behind that. Without a FOR the text's end.
Token behind_settings(Lexer &lexer) {
  unsigned depth = 0;
  for (Token token = lexer.next(); !token.is_end(); token = lexer.next()) {
    if (token.is('(')) depth++;
    if (token.is(')') && depth != 0) depth--;
    if (depth == 0 && token.is("for")) break;
  }
  return lexer.next();
}

bool frees_names(const Token &token) { return token.is_named("release_lock") || token.is_named("release_all_locks"); }

// Whether `word` occurs in any case, possibly inside another word.
bool occurs(const char *text, const char *end, const char *word) {
  for (; text < end; text++) {
    const char *at = text;
    const char *letter = word;
    while (*letter != '\0' && at != end && (*at | 0x20) == *letter) at++, letter++;
    if (*letter == '\0') return true;
  }
  return false;
}

}  // namespace

Text::Text(const char *text, unsigned length) : end(text + length) {
  Lexer lexer(text, end);
  first = lexer.next();
  if (first.is("set")) {
    Lexer behind = lexer;
    if (behind.next().is("statement")) {
      lexer = behind;
      first = behind_settings(lexer);
    }
  }
  may_not_run = lexer.in_conditional();
}

bool Text::rolls_back_to_savepoint() const {
  Lexer lexer = after_first();
  Token token = lexer.next();
  while (!ends_statement(token) && !token.is("to")) token = lexer.next();
  return token.is("to");
}

Purpose Text::purpose() const {
  if (begins_with("select") || begins_with("do")) return purpose_of_select();
  if (begins_with("set")) return purpose_of_set();
  if (begins_with("insert") || begins_with("update") || begins_with("delete") || begins_with("call")) return Purpose::WORK;
  if (frees_session_locks()) return Purpose::URGENT;
  if (begins_with_any_of("kill", "shutdown", "show", "use", "commit", "rollback", "stop", "reset", "change"))
    return Purpose::URGENT;
  const Token second = after_first().next();
  if (begins_with("xa")) return second.is("start") || second.is("begin") ? Purpose::WORK : Purpose::URGENT;
  // Replicas. Not START TRANSACTION.
  if (begins_with("start")) return second.is("transaction") ? Purpose::WORK : Purpose::URGENT;
  return begins_with_any_of("explain", "describe", "desc", "help", "flush", "backup") ? Purpose::MINOR : Purpose::WORK;
}

// Also of DO.
Purpose Text::purpose_of_select() const {
  bool has_variable = false, has_constant = false, has_call = false, frees = false;
  Lexer lexer = after_first();
  Token before = first;
  for (unsigned tokens = 0;; tokens++) {
    const Token token = lexer.next();
    if (ends_statement(token)) break;
    // INTO writes a file or a variable.
    if (tokens == SIMPLE_TOKENS_MAX || token.is("from") || token.is("into") || token.is("select")) return Purpose::WORK;
    has_variable |= token.is('@');
    has_constant |= token.kind == Token::Kind::WORD || token.kind == Token::Kind::QUOTED;
    if (token.is('(')) {
      Lexer inside = lexer;
      if (frees_names(before))
        frees = true;
      else if (!inside.next().is(')'))
        has_call = true;
    }
    before = token;
  }
  if (has_call) return Purpose::WORK;
  if (frees || has_variable) return Purpose::URGENT;
  return has_constant ? Purpose::MINOR : Purpose::WORK;
}

// Setting a constant or another variable takes no time. A call or a subquery may.
Purpose Text::purpose_of_set() const {
  Lexer lexer = after_first();
  Token token = lexer.next();
  while (!ends_statement(token) && !token.is('(')) token = lexer.next();
  return token.is('(') ? Purpose::WORK : Purpose::URGENT;
}

// Called for each SELECT of a transaction, so most texts are not split into tokens.
bool Text::locks_rows_read() const {
  if (first.begin == nullptr || !(occurs(first.begin, end, "update") || occurs(first.begin, end, "share"))) return false;
  Lexer lexer = after_first();
  Token before = first;
  for (Token token = lexer.next(); !ends_statement(token); token = lexer.next()) {
    if ((before.is("for") && token.is("update")) || (before.is("in") && token.is("share"))) return true;
    before = token;
  }
  return false;
}

bool Text::ends_transaction() const {
  if (may_not_run) return false;
  return begins_with("commit") || (begins_with("rollback") && !rolls_back_to_savepoint());
}

// UNLOCK TABLES, BACKUP STAGE END, BACKUP UNLOCK, HANDLER .. CLOSE.
bool Text::frees_session_locks() const {
  Lexer lexer = after_first();
  if (begins_with("unlock")) return true;
  if (begins_with("backup")) {
    const Token what = lexer.next();
    return what.is("unlock") || (what.is("stage") && lexer.next().is("end"));
  }
  if (!begins_with("handler")) return false;
  // A name, or two with a dot between them.
  lexer.next();
  Token token = lexer.next();
  if (token.is('.')) lexer.next(), token = lexer.next();
  return token.is("close");
}

bool Text::commits_in_two_phases() const {
  return !may_not_run && (begins_with("xa", "prepare") || begins_with("xa", "commit"));
}

bool Text::installs_flifo() const {
  if (!begins_with("install")) return false;
  Lexer lexer = after_first();
  Token token = lexer.next();
  while (!ends_statement(token) && !token.is_named("flifo") && !token.is_named("flifo.so")) token = lexer.next();
  return !ends_statement(token);
}

bool Text::only_begins() const {
  if (begins_with("set") || begins_with("xa") || begins_with("start", "transaction")) return true;
  if (!begins_with("begin")) return false;
  Lexer lexer = after_first();
  Token token = lexer.next();
  if (token.is("work")) token = lexer.next();
  return ends_statement(token);
}

}  // namespace flifo
