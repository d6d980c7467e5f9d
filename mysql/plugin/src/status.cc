// SPDX-License-Identifier: GPL-2.0-only

#include "status.h"

#include "settings.h"

#include <cstring>

namespace flifo::status {
namespace {

const char *level = "";

// What one SHOW STATUS shows. The thread that fills it reads it before it fills it again.
class Shown {
 public:
  abi::ShowVariable *fill() {
    flifo_snapshot_t now;
    memset(&now, 0, sizeof now);
    flifo_snapshot(settings::admission(), &now, sizeof now);
    length = 0;
    variables[length++] = {"level", const_cast<char *>(level), abi::Show::CHARS, abi::SHOW_GLOBAL};
    add("running", now.running);
    add("pending", now.pending);
    add("queued", now.queued);
    add("admitted", now.admitted_at_once + now.admitted_by_barging + now.admitted_from_queue + now.admitted_by_force);
    add("stalls", now.stalls_broken + now.slots_reclaimed);
    variables[length] = {nullptr, nullptr, abi::Show::UNDEF, abi::SHOW_GLOBAL};
    return variables;
  }

 private:
  static constexpr size_t LENGTH_MAX = 8;

  void add(const char *name, unsigned long long number) {
    numbers[length] = number;
    variables[length] = {name, &numbers[length], abi::Show::LONGLONG, abi::SHOW_GLOBAL};
    length++;
  }

  unsigned long long numbers[LENGTH_MAX];
  abi::ShowVariable variables[LENGTH_MAX];
  size_t length;
};

int show(THD *, abi::ShowVariable *variable, char *) {
  static thread_local Shown shown;
  variable->type = abi::Show::ARRAY;
  variable->value = shown.fill();
  return 0;
}

}  // namespace

void set_level(const char *is) { level = is; }

const abi::ShowVariable variables[] = {
    {"Flifo", reinterpret_cast<void *>(show), abi::Show::FUNC, abi::SHOW_GLOBAL},
    {nullptr, nullptr, abi::Show::UNDEF, 0},
};

}  // namespace flifo::status
