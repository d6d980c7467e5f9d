// What is read from a statement's text: a table of texts.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// Prints each wrong answer; exits with 0 if there is none.

#include "../src/text.h"

#include <cstdio>
#include <cstring>
#include <string>

namespace {

using flifo::Lexer;
using flifo::Purpose;
using flifo::Text;
using flifo::Token;

unsigned wrong = 0;

void expect(bool is_right, const char *what, const std::string &text) {
  if (is_right) return;
  wrong++;
  printf("%s: %s\n", what, text.c_str());
}

Text text_of(const std::string &text) { return Text(text.data(), static_cast<unsigned>(text.size())); }

const char LONG_COMMENT[] = " -- a comment that is longer than one hundred and twenty characters ...................................................";

struct PurposeOf {
  const char *text;
  Purpose purpose;
};

constexpr PurposeOf PURPOSES[] = {
    {"", Purpose::WORK},
    {"KILL 5", Purpose::URGENT},
    {"kill query 5", Purpose::URGENT},
    {"KILL HARD QUERY ID 5", Purpose::URGENT},
    {"KILL SOFT CONNECTION 5", Purpose::URGENT},
    {"KILL USER app", Purpose::URGENT},
    {"/* driver */ KILL QUERY 5", Purpose::URGENT},
    {"-- \nKILL 5", Purpose::URGENT},
    {"/*!50000 KILL 5 */", Purpose::URGENT},
    {"killer", Purpose::WORK},
    {"SHUTDOWN", Purpose::URGENT},
    {"SHUTDOWN WAIT FOR ALL REPLICAS", Purpose::URGENT},
    {"STOP REPLICA", Purpose::URGENT},
    {"STOP ALL SLAVES", Purpose::URGENT},
    {"START SLAVE SQL_THREAD", Purpose::URGENT},
    {"START REPLICA", Purpose::URGENT},
    {"RESET REPLICA ALL", Purpose::URGENT},
    {"CHANGE MASTER TO master_host = 'x'", Purpose::URGENT},
    {"START TRANSACTION", Purpose::WORK},
    {"BEGIN", Purpose::WORK},
    {"COMMIT", Purpose::URGENT},
    {"COMMIT AND CHAIN", Purpose::URGENT},
    {"rollback to savepoint a", Purpose::URGENT},
    {"XA END 'a'", Purpose::URGENT},
    {"XA COMMIT 'a' ONE PHASE", Purpose::URGENT},
    {"XA ROLLBACK 'a'", Purpose::URGENT},
    {"XA RECOVER", Purpose::URGENT},
    {"XA START 'a'", Purpose::WORK},
    {"UNLOCK TABLES", Purpose::URGENT},
    {"LOCK TABLES t WRITE", Purpose::WORK},
    {"BACKUP STAGE END", Purpose::URGENT},
    {"BACKUP UNLOCK", Purpose::URGENT},
    {"BACKUP STAGE START", Purpose::MINOR},
    {"FLUSH TABLES WITH READ LOCK", Purpose::MINOR},
    {"HANDLER h CLOSE", Purpose::URGENT},
    {"HANDLER test . `a b` /* x */ CLOSE", Purpose::URGENT},
    {"HANDLER h READ FIRST WHERE pad = 'close'", Purpose::WORK},
    {"HANDLER h OPEN", Purpose::WORK},
    {"SHOW PROCESSLIST", Purpose::URGENT},
    {"SHOW GLOBAL STATUS LIKE 'Threads%'", Purpose::URGENT},
    {"USE test", Purpose::URGENT},
    {"SET NAMES utf8mb4", Purpose::URGENT},
    {"SET autocommit = 1, @a = 'x(y)'", Purpose::URGENT},
    {"SET @a = (SELECT COUNT(*) FROM t)", Purpose::WORK},
    {"SET STATEMENT max_statement_time = 1 FOR KILL 5", Purpose::URGENT},
    {"SET STATEMENT a = (SELECT 1 FOR UPDATE), b = 2 FOR SELECT * FROM t", Purpose::WORK},
    {"SET STATEMENT max_statement_time = 1", Purpose::WORK},
    {"SELECT 1", Purpose::MINOR},
    {"SELECT 1 AS one, 'a' b", Purpose::MINOR},
    {"SELECT UNIX_TIMESTAMP()", Purpose::MINOR},
    {"DO 1", Purpose::MINOR},
    {"SELECT @@GLOBAL.server_id", Purpose::URGENT},
    {"SELECT @@version_comment LIMIT 1", Purpose::URGENT},
    {"SELECT @a := SLEEP(1)", Purpose::WORK},
    {"SELECT BENCHMARK(1000000, MD5('x'))", Purpose::WORK},
    {"SELECT COUNT(*) FROM t", Purpose::WORK},
    {"SELECT a FROM t", Purpose::WORK},
    {"SELECT (SELECT 1)", Purpose::WORK},
    {"SELECT 1 INTO OUTFILE '/tmp/x'", Purpose::WORK},
    {"SELECT 1; SELECT * FROM t", Purpose::MINOR},
    {"SELECT RELEASE_LOCK('a')", Purpose::URGENT},
    {"DO `release_lock` /* x */ ('a')", Purpose::URGENT},
    {"SELECT release_all_locks()", Purpose::URGENT},
    {"SELECT RELEASE_LOCK('a') FROM t", Purpose::WORK},
    {"SELECT 'release_lock(', SLEEP(1)", Purpose::WORK},
    {"EXPLAIN SELECT * FROM t", Purpose::MINOR},
    {"DESC t", Purpose::MINOR},
    {"UPDATE t SET a = 'commit'", Purpose::WORK},
    {"(SELECT 1)", Purpose::WORK},
    {"CALL kill()", Purpose::WORK},
};

void purposes() {
  for (const PurposeOf &row : PURPOSES) {
    for (const std::string &text : {std::string(row.text), row.text + std::string(LONG_COMMENT), "/* a */\n" + std::string(row.text)})
      expect(text_of(text).purpose() == row.purpose, "purpose", text);
  }
}

struct Answer {
  const char *text;
  bool is_so;
};

constexpr Answer LOCKS_ROWS_READ[] = {
    {"SELECT * FROM t FOR UPDATE", true},
    {"SELECT * FROM t for  /* x */ update SKIP LOCKED", true},
    {"SELECT * FROM t FOR UPDATE NOWAIT", true},
    {"SELECT * FROM t LOCK IN SHARE MODE", true},
    {"SELECT * FROM t WHERE id IN (SELECT id FROM s FOR UPDATE) ORDER BY id", true},
    {"SELECT * FROM t WHERE a = 'FOR UPDATE'", false},
    {"SELECT * FROM t /* FOR UPDATE */", false},
    {"SELECT * FROM t; SELECT * FROM t FOR UPDATE", false},
    {"SELECT `for update` FROM t", false},
    {"SELECT updated FROM t", false},
};

constexpr Answer ENDS_TRANSACTION[] = {
    {"COMMIT", true},         {"commit work", true},
    {"/* a */ ROLLBACK", true}, {"ROLLBACK WORK TO SAVEPOINT a", false},
    {"ROLLBACK TO a", false}, {"/*!999999 COMMIT */", false},
    {"SELECT 'commit'", false}, {"SET STATEMENT a = 1 FOR COMMIT", true},
    {"ROLLBACK; ROLLBACK TO a", true},
};

constexpr Answer ONLY_BEGINS[] = {
    {"BEGIN", true},          {"BEGIN WORK", true},
    {"BEGIN -- now", true},   {"START TRANSACTION READ ONLY", true},
    {"SET @a = 1", true},     {"XA START 'a'", true},
    {"BEGIN NOT ATOMIC DO 1; END", false}, {"START SLAVE", false},
    {"SET STATEMENT a = 1 FOR UPDATE t SET a = 1", false},
};

constexpr Answer COMMITS_IN_TWO_PHASES[] = {
    {"XA PREPARE 'a'", true}, {"xa /* x */ commit 'a'", true}, {"XA START 'a'", false}, {"/*!999999 XA PREPARE 'a' */", false},
};

constexpr Answer SETS_ROLE[] = {
    {"SET ROLE admin", true}, {"/*!SET*/ ROLE admin", true}, {"/*!100005 SET ROLE admin */", true}, {"SET/**/ROLE admin", true}, {"SET STATEMENT a = 1 FOR SET ROLE admin", true}, {"SET DEFAULT ROLE admin", false}, {"SET @role = 1", false},
};

constexpr Answer INSTALLS_FLIFO[] = {
    {"INSTALL SONAME 'flifo'", true},
    {"INSTALL SONAME \"flifo.so\"", true},
    {"install plugin flifo soname 'flifo'", true},
    {"INSTALL SONAME 'other'", false},
    {"UNINSTALL SONAME 'flifo'", false},
};

template <size_t SIZE>
void answers(const char *what, bool (Text::*question)() const, const Answer (&rows)[SIZE]) {
  for (const Answer &row : rows) {
    for (const std::string &text : {std::string(row.text), row.text + std::string(LONG_COMMENT)})
      expect((text_of(text).*question)() == row.is_so, what, text);
  }
}

// No text makes the lexer read beyond its end, or stand still: each prefix of these, in memory of just its length.
void prefixes() {
  for (const char *whole : {"SELECT 'a\\'b' \"c\" `d``e` /* f */ /*!50000 g */ /*M!100000 h */ # i\n-- j\n-- ", "'\\", "/*", "/*!", "--", "`", "*/", "SET STATEMENT ((a FOR"}) {
    for (size_t length = 0; length <= strlen(whole); length++) {
      std::string text(whole, length);
      text.shrink_to_fit();
      const Text read = text_of(text);
      read.purpose(), read.locks_rows_read(), read.ends_transaction(), read.only_begins();
      Lexer lexer(text.data(), text.data() + text.size());
      size_t tokens = 0;
      while (!lexer.next().is_end() && tokens <= length) tokens++;
      expect(tokens <= length, "the lexer stands still", text);
    }
  }
}

}  // namespace

int main() {
  purposes();
  answers("locks_rows_read", &Text::locks_rows_read, LOCKS_ROWS_READ);
  answers("ends_transaction", &Text::ends_transaction, ENDS_TRANSACTION);
  answers("only_begins", &Text::only_begins, ONLY_BEGINS);
  answers("commits_in_two_phases", &Text::commits_in_two_phases, COMMITS_IN_TWO_PHASES);
  answers("installs_flifo", &Text::installs_flifo, INSTALLS_FLIFO);
  answers("sets_role", &Text::sets_role, SETS_ROLE);
  prefixes();
  return wrong == 0 ? 0 : 1;
}
