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
// And by the source file that runs a client's text. Others may name it when they put back what they found.
constexpr const char *FILE_NAME = "sql_parse.cc";

void (*on_work_done)(MYSQL_THD);
PSI *before;
PSI **server_table;
MYSQL_THD (*current_thd)();
void (*get_stage)(MYSQL_THD, const PSI_stage_info_v1 *set, PSI_stage_info_v1 *get, const char *function, const char *file,
                  unsigned line);

// The places in the server's source at which it names a stage, some hundred, as they were met, and whether that is `DONE`: looking a
// name up costs more. A word has all of one, so that no lock is needed: the file's address, the line, the answer in the lowest bit. None
// is forgotten: all threads read these words at each stage, so they must not be written for long.
constexpr unsigned PLACES = 1024, PROBES = 16, LINE_BITS = 15;
std::atomic<uint64_t> places[PLACES];

// The source file that names `DONE`, once it is known: nearly all stages are of others, and a statement has twenty.
std::atomic<const char *> done_file{nullptr};

bool is_done(MYSQL_THD thd) {
  PSI_stage_info_v1 stage{};
  get_stage(thd, nullptr, &stage, "", "", 0);
  return stage.m_name != nullptr && strcmp(stage.m_name, DONE) == 0;
}

bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

// Whether `DONE` is named here; looked up for this thread if it is not known.
bool names_done(const char *file, int line) {
  const uint64_t place = reinterpret_cast<uint64_t>(file) << (LINE_BITS + 1) |
                         static_cast<uint64_t>(line & ((1 << LINE_BITS) - 1)) << 1;
  uint64_t at = (place * 0x9E3779B97F4A7C15) >> 54;
  static_assert(PLACES == 1 << (64 - 54));
  for (unsigned probe = 0; probe < PROBES; probe++, at = (at + 1) % PLACES) {
    uint64_t met = places[at].load(std::memory_order_relaxed);
    if (met == place) return false;
    if (met == (place | 1)) return true;
    if (met != 0) continue;
    MYSQL_THD thd = current_thd();
    const bool done = thd != nullptr && is_done(thd) && ends_with(file, FILE_NAME);
    if (done) done_file.store(file, std::memory_order_relaxed);
    // Another thread may have had the same word for another place.
    if (thd != nullptr)
      places[at].compare_exchange_strong(met, place | static_cast<uint64_t>(done), std::memory_order_relaxed);
    return done;
  }
  return false;
}

// The thread names what it does from here on.
PSI_stage_progress *start_stage(PSI_stage_key key, const char *file, int line) {
  PSI_stage_progress *progress = before->start_stage(key, file, line);
  const char *known = done_file.load(std::memory_order_relaxed);
  if ((known == nullptr || known == file) && names_done(file, line))
    if (MYSQL_THD thd = current_thd()) on_work_done(thd);
  return progress;
}

// The server's table, but for this; and whether it is in use: another plugin may have put its own before it, and then it stays.
PSI table;
bool is_in_chain;

}  // namespace

bool hook(void (*work_done)(MYSQL_THD)) {
  server_table = reinterpret_cast<PSI **>(dlsym(RTLD_DEFAULT, "PSI_server"));
  current_thd = reinterpret_cast<MYSQL_THD (*)()>(dlsym(RTLD_DEFAULT, "_current_thd"));
  get_stage = reinterpret_cast<decltype(get_stage)>(dlsym(RTLD_DEFAULT, "set_thd_stage_info"));
  if (server_table == nullptr || *server_table == nullptr || current_thd == nullptr || get_stage == nullptr) return false;
  on_work_done = work_done;
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
