// The core on a fake server, with the real scheduler: cases of a statement's life.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// Prints each wrong answer; exits with 0 if there is none. With a word, only the cases whose names contain it.

#include "core.h"

#include "cases.h"

#include <cstdio>
#include <cstring>

namespace cases {
namespace {

std::atomic<unsigned> wrong{0};
const char *running_case = "";

void run(const Case &one) {
  running_case = one.name;
  fake::server.may_sleep = false;
  fake::server.has_events = fake::server.can_refuse = true;
  fake::server.warnings = 0;
  flifo::settings::values = one.settings;
  const char *why = flifo::core::start();
  EXPECT(why == nullptr);
  if (why != nullptr) return;
  one.run();
  // A slot that a thread hands off is pending until the other thread runs.
  EXPECT(fake::until([] {
    const fake::Counts now = fake::counts();
    return now.running == 0 && now.pending == 0 && now.queued == 0;
  }));
  flifo::core::stop();
  EXPECT(fake::server.has_events);
}

}  // namespace

void expect_at(bool is_right, const char *what, const char *file, int line) {
  if (is_right) return;
  wrong++;
  const char *name = strrchr(file, '/');
  printf("%s: %s:%d: %s\n", running_case, name == nullptr ? file : name + 1, line, what);
}

}  // namespace cases

int main(int count, char **words) {
  unsigned ran = 0;
  for (const auto &group : {cases::of_settings(), cases::of_admission(), cases::of_insides(), cases::of_waits(), cases::of_dormancy()}) {
    for (const cases::Case &one : group) {
      if (count > 1 && strstr(one.name, words[1]) == nullptr) continue;
      cases::run(one);
      ran++;
    }
  }
  printf("%u cases, %u wrong answers\n", ran, cases::wrong.load());
  return ran != 0 && cases::wrong == 0 ? 0 : 1;
}
