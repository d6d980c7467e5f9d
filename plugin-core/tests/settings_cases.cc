// What settings accept, and what they answer.
//
// SPDX-License-Identifier: GPL-2.0-only

#include "cases.h"

#include <cstring>

namespace cases {
namespace {

namespace settings = flifo::settings;

bool is(const char *text, const char *expected) { return text != nullptr && strcmp(text, expected) == 0; }

void texts() {
  unsigned long number = 77;
  for (const char *text : {"1024", "-1", "", "autos", "1.5", "01"})
    EXPECT(is(settings::parse_concurrency(text, number), "auto or a number from 0 to 1023") && number == 77);
  EXPECT(settings::parse_concurrency("1023", number) == nullptr && number == 1023);
  EXPECT(settings::parse_concurrency("AUTO", number) == nullptr && number == settings::AUTO);
  EXPECT(settings::parse_policy("Quantum", number) == nullptr && number == settings::DEFAULT_POLICY);
  EXPECT(is(settings::parse_policy("lifo", number), "none, fifo, flifo or quantum"));
  char is_on = 7;
  EXPECT(is(settings::parse_switch("2", is_on), "ON or OFF (1 or 0)") && is_on == 7);
  for (const char *text : {"1", "ON", "true"}) EXPECT(settings::parse_switch(text, is_on) == nullptr && is_on == 1);
  for (const char *text : {"0", "off", "FALSE"}) EXPECT(settings::parse_switch(text, is_on) == nullptr && is_on == 0);
}

void numbers() {
  EXPECT(is(settings::check(settings::QUANTUM, 0), "a number from 1 to 1000000"));
  EXPECT(is(settings::check(settings::QUANTUM, -1), "a number from 1 to 1000000"));
  EXPECT(is(settings::check(settings::IO_DEPTH, 1LL << 40), "a number from 0 to 1000000"));
  EXPECT(settings::check(settings::QUANTUM, 1) == nullptr && settings::check(settings::IO_DEPTH, 1000000) == nullptr);
  EXPECT(settings::check(settings::MAX_QUEUE, 5) == nullptr);
  fake::server.can_refuse = false;
  EXPECT(is(settings::check(settings::MAX_QUEUE, 5), "0, since this server cannot fail a queued statement"));
  EXPECT(settings::check(settings::MAX_QUEUE, 0) == nullptr && settings::check(settings::IO_DEPTH, 5) == nullptr);
}

void changed_while_running() {
  fake::Client client;
  EXPECT(client.begin("UPDATE t SET a = 1"));
  settings::values = fake::limited_to(0);
  EXPECT(settings::apply() == nullptr && !settings::is_on());
  client.end_statement();
  client.end_packet();
  settings::values = fake::limited_to(5);
  EXPECT(settings::apply() == nullptr && settings::is_on());
  EXPECT(fake::shown("thread_concurrency") == 5);
}

}  // namespace

std::vector<Case> of_settings() {
  const settings::Values one = fake::limited_to(1);
  return {{"texts of settings", one, texts}, {"numbers of settings", one, numbers}, {"changed while running", one, changed_while_running}};
}

}  // namespace cases
