// What the cases of the core's test program share.
//
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "fake_server.h"

namespace cases {

// A case starts the core with these settings, and runs; afterwards no slot may be out and nothing queued.
struct Case {
  const char *name;
  flifo::settings::Values settings;
  void (*run)();
};

std::vector<Case> of_admission();
std::vector<Case> of_insides();
std::vector<Case> of_waits();
std::vector<Case> of_dormancy();
std::vector<Case> of_settings();

// Reports a wrong answer.
void expect_at(bool is_right, const char *what, const char *file, int line);

}  // namespace cases

#define EXPECT(...) ::cases::expect_at((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
