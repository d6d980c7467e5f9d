// SPDX-License-Identifier: GPL-2.0-only

#include <my_global.h>
#include <mysql/psi/psi.h>

#include "stages.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstring>

namespace flifo::stages {
namespace {

constexpr const char *DONE = "Freeing items";

void (*on_work_done)(MYSQL_THD);
PSI *before;
PSI **server_table;
MYSQL_THD (*current_thd)();
void (*get_stage)(MYSQL_THD, const PSI_stage_info_v1 *set, PSI_stage_info_v1 *get, const char *function, const char *file,
                  unsigned line);

// The places in the server's source at which it names a stage, as far as they were met, and whether that is `DONE`: looking a
// name up costs more. A word has all of one, so that no lock is needed: the file's address, the line, the answer in the lowest bit.
constexpr unsigned PLACES = 256, LINE_BITS = 15;
std::atomic<uint64_t> places[PLACES];

bool is_done(MYSQL_THD thd) {
  PSI_stage_info_v1 stage{};
  get_stage(thd, nullptr, &stage, "", "", 0);
  return stage.m_name != nullptr && strcmp(stage.m_name, DONE) == 0;
}

// The thread names what it does from here on.
PSI_stage_progress *start_stage(PSI_stage_key key, const char *file, int line) {
  PSI_stage_progress *progress = before->start_stage(key, file, line);
  const uint64_t place = reinterpret_cast<uint64_t>(file) << (LINE_BITS + 1) |
                         static_cast<uint64_t>(line & ((1 << LINE_BITS) - 1)) << 1;
  std::atomic<uint64_t> &known = places[(place >> 1 ^ place >> (LINE_BITS + 4)) % PLACES];
  const uint64_t met = known.load(std::memory_order_relaxed);
  if (met == place) return progress;
  MYSQL_THD thd = current_thd();
  if (thd == nullptr) return progress;
  if (met != (place | 1)) {
    const bool done = is_done(thd);
    known.store(place | static_cast<uint64_t>(done), std::memory_order_relaxed);
    if (!done) return progress;
  }
  on_work_done(thd);
  return progress;
}

// The server's table, but for this.
PSI table;

}  // namespace

bool hook(void (*work_done)(MYSQL_THD)) {
  server_table = reinterpret_cast<PSI **>(dlsym(RTLD_DEFAULT, "PSI_server"));
  current_thd = reinterpret_cast<MYSQL_THD (*)()>(dlsym(RTLD_DEFAULT, "_current_thd"));
  get_stage = reinterpret_cast<decltype(get_stage)>(dlsym(RTLD_DEFAULT, "set_thd_stage_info"));
  if (server_table == nullptr || *server_table == nullptr || current_thd == nullptr || get_stage == nullptr) return false;
  if (*server_table == &table) return false;
  on_work_done = work_done;
  before = *server_table;
  table = *before;
  table.start_stage = start_stage;
  __atomic_store_n(server_table, &table, __ATOMIC_RELEASE);
  return true;
}

void unhook() {
  if (server_table != nullptr && *server_table == &table) __atomic_store_n(server_table, before, __ATOMIC_RELEASE);
}

}  // namespace flifo::stages
