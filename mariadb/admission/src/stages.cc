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

// How a stage that matters begins, the source file that names it for what it is (others may name it when they put back what they
// found), and what else is named there.
struct Named {
  const char *name, *file;
  Stage named, others;
};
constexpr Named NAMED[] = {
    // This file runs a client's text.
    {"Freeing items", "sql_parse.cc", Stage::WorkDone, Stage::Other},
    {"Commit", "transaction.cc", Stage::Commit, Stage::CommitOver},
};

void (*on_stage)(MYSQL_THD, Stage);
PSI *before;
PSI **server_table;
MYSQL_THD (*current_thd)();
void (*get_stage)(MYSQL_THD, const PSI_stage_info_v1 *set, PSI_stage_info_v1 *get, const char *function, const char *file,
                  unsigned line);

// The places in the server's source at which it names a stage, some hundred, as they were met, and which it is: looking a
// name up costs more. A word has all of one, so that no lock is needed: the file's address, the line, the stage in the lowest bits. None
// is forgotten: all threads read these words at each stage, so they must not be written for long.
constexpr unsigned PLACES = 1024, PROBES = 16, LINE_BITS = 14, STAGE_BITS = 2;
constexpr uint64_t STAGE_MASK = (1 << STAGE_BITS) - 1;
std::atomic<uint64_t> places[PLACES];

bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

// What this thread has begun, and was named in that file.
Stage look_up(MYSQL_THD thd, const char *file) {
  for (const Named &named : NAMED) {
    if (!ends_with(file, named.file)) continue;
    PSI_stage_info_v1 stage{};
    get_stage(thd, nullptr, &stage, "", "", 0);
    // What is put back may have no name.
    const bool is_it = stage.m_name != nullptr && strncmp(stage.m_name, named.name, strlen(named.name)) == 0;
    return is_it ? named.named : named.others;
  }
  return Stage::Other;
}

// What stands for a place: never 0, since no file is null, and with the lowest bits free for its stage.
uint64_t word_of(const char *file, int line) {
  return reinterpret_cast<uint64_t>(file) << (LINE_BITS + STAGE_BITS) |
         static_cast<uint64_t>(line & ((1 << LINE_BITS) - 1)) << STAGE_BITS;
}

// Where it is looked for first.
uint64_t first_of(uint64_t place) {
  static_assert(PLACES == 1 << (64 - 54));
  return (place * 0x9E3779B97F4A7C15) >> 54;
}

// What is named there; looked up for this thread if it is not known.
Stage stage_at(uint64_t place, const char *file) {
  uint64_t at = first_of(place);
  for (unsigned probe = 0; probe < PROBES; probe++, at = (at + 1) % PLACES) {
    uint64_t met = places[at].load(std::memory_order_relaxed);
    if (met != 0 && (met & ~STAGE_MASK) == place) return static_cast<Stage>(met & STAGE_MASK);
    if (met != 0) continue;
    MYSQL_THD thd = current_thd();
    if (thd == nullptr) return Stage::Other;
    const Stage stage = look_up(thd, file);
    // Another thread may have had the same word for another place.
    places[at].compare_exchange_strong(met, place | static_cast<uint64_t>(stage), std::memory_order_relaxed);
    return stage;
  }
  return Stage::Other;
}

// As `start_stage`, for one that may matter.
[[gnu::noinline]] PSI_stage_progress *start_unusual_stage(PSI_stage_key key, const char *file, int line, uint64_t place) {
  PSI_stage_progress *progress = before->start_stage(key, file, line);
  const Stage stage = stage_at(place, file);
  if (stage != Stage::Other)
    if (MYSQL_THD thd = current_thd()) on_stage(thd, stage);
  return progress;
}

// The thread names what it does from here on. A statement does so 25 times and more: so what is known to be none that matters,
// and stands where it is looked for first, costs a few instructions.
PSI_stage_progress *start_stage(PSI_stage_key key, const char *file, int line) {
  static_assert(static_cast<uint64_t>(Stage::Other) == 0);
  const uint64_t place = word_of(file, line);
  if (places[first_of(place)].load(std::memory_order_relaxed) != place) return start_unusual_stage(key, file, line, place);
  return before->start_stage(key, file, line);
}

// The server's table, but for this; and whether it is in use: another plugin may have put its own before it, and then it stays.
PSI table;
bool is_in_chain;

}  // namespace

bool hook(void (*listener)(MYSQL_THD, Stage)) {
  server_table = reinterpret_cast<PSI **>(dlsym(RTLD_DEFAULT, "PSI_server"));
  current_thd = reinterpret_cast<MYSQL_THD (*)()>(dlsym(RTLD_DEFAULT, "_current_thd"));
  get_stage = reinterpret_cast<decltype(get_stage)>(dlsym(RTLD_DEFAULT, "set_thd_stage_info"));
  if (server_table == nullptr || *server_table == nullptr || current_thd == nullptr || get_stage == nullptr) return false;
  on_stage = listener;
  if (is_in_chain) return true;
  before = *server_table;
  table = *before;
  table.start_stage = start_stage;
  __atomic_store_n(server_table, &table, __ATOMIC_RELEASE);
  return is_in_chain = true;
}

void unhook() {
  if (!is_in_chain || *server_table != &table) return;
  __atomic_store_n(server_table, before, __ATOMIC_RELEASE);
  is_in_chain = false;
}

}  // namespace flifo::stages
