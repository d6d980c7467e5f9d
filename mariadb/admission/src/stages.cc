// SPDX-License-Identifier: GPL-2.0-only

#include <my_global.h>
#include <mysql/psi/psi.h>

#include "stages.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace flifo::stages {
namespace {

void (*on_stage)(MYSQL_THD, Stage);
PSI *before;
PSI **server_table;
void (*get_stage)(MYSQL_THD, const PSI_stage_info_v1 *set, PSI_stage_info_v1 *get, const char *function, const char *file,
                  unsigned line);

// The sites in the server's source that name a stage, about a hundred, and which stage it is: a lookup by name costs more.
// One word holds a site, so no lock is needed: the file's address, the line, and the stage in the lowest bits. Sites are
// never removed, because all threads read these words at each stage.
constexpr unsigned SITES = 1024, PROBES = 16, LINE_BITS = 14, STAGE_BITS = 3;
constexpr uint64_t STAGE_MASK = (1 << STAGE_BITS) - 1;
std::atomic<uint64_t> sites[SITES];

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// The stage that this thread has just begun at a site in `file`: by its name, and by the file that names it, since other
// files restore names.
Stage look_up(MYSQL_THD thd, const char *file) {
  const bool is_statement = ends_with(file, "sql_parse.cc"), is_commit = ends_with(file, "transaction.cc");
  if (ends_with(file, "sql_repl.cc")) return Stage::SENDS_BINLOG;
  if (!is_statement && !is_commit) return Stage::OTHER;
  PSI_stage_info_v1 stage{};
  get_stage(thd, nullptr, &stage, "", "", 0);
  // A restored stage may have no name.
  const std::string_view name = stage.m_name == nullptr ? "" : stage.m_name;
  if (is_statement) return name.substr(0, 13) == "Freeing items" ? Stage::WORK_DONE : Stage::OTHER;
  return name.substr(0, 6) == "Commit" ? Stage::COMMIT : Stage::COMMIT_END;
}

// The word of a site: never 0, since no file is null, and with the lowest bits free.
uint64_t word_of(const char *file, int line) {
  return reinterpret_cast<uint64_t>(file) << (LINE_BITS + STAGE_BITS) |
         static_cast<uint64_t>(line & ((1 << LINE_BITS) - 1)) << STAGE_BITS;
}

// The first index at which a site is searched.
uint64_t first_of(uint64_t site) {
  static_assert(SITES == 1 << (64 - 54));
  return (site * 0x9E3779B97F4A7C15) >> 54;
}

// The stage of a site; looked up by name if the site is new.
Stage stage_at(uint64_t site, const char *file) {
  uint64_t at = first_of(site);
  for (unsigned probe = 0; probe < PROBES; probe++, at = (at + 1) % SITES) {
    uint64_t met = sites[at].load(std::memory_order_relaxed);
    if (met != 0 && (met & ~STAGE_MASK) == site) return static_cast<Stage>(met & STAGE_MASK);
    if (met != 0) continue;
    MYSQL_THD thd = exports::current();
    if (thd == nullptr) return Stage::OTHER;
    const Stage stage = look_up(thd, file);
    // Another thread may have taken the word for another site.
    sites[at].compare_exchange_strong(met, site | static_cast<uint64_t>(stage), std::memory_order_relaxed);
    return stage;
  }
  return Stage::OTHER;
}

// Whether the stages are switched off, and how many threads have something to call at their next one. While any has, they stay on.
std::atomic<bool> is_paused{false};
std::atomic<unsigned> deferring{0};
void follow_pause();

// What a thread has to call at its next stage.
struct Deferred {
  void (*call)(MYSQL_THD) = nullptr;

  void set(void (*to)(MYSQL_THD)) {
    const bool had = call != nullptr, has = to != nullptr;
    call = to;
    if (had == has) return;
    // In one order with `is_paused`: either this thread or the one that pauses sees the other.
    deferring.fetch_add(has ? 1 : -1U, std::memory_order_seq_cst);
    if (is_paused.load(std::memory_order_seq_cst)) follow_pause();
  }
  ~Deferred() { set(nullptr); }
};
thread_local Deferred deferred;

void call_deferred() {
  void (*const call)(MYSQL_THD) = deferred.call;
  deferred.set(nullptr);
  MYSQL_THD thd = exports::current();
  if (call != nullptr && thd != nullptr) call(thd);
}

// `start_stage` for a site that may matter, or for a thread that may have something to call.
[[gnu::noinline]] PSI_stage_progress *start_unusual_stage(PSI_stage_key key, const char *file, int line, uint64_t site) {
  run_deferred();
  PSI_stage_progress *progress = before->start_stage(key, file, line);
  const Stage stage = stage_at(site, file);
  if (stage != Stage::OTHER)
    if (MYSQL_THD thd = exports::current()) on_stage(thd, stage);
  return progress;
}

// A thread begins a stage. A statement has 25 stages or more, so the common case, a known site of no interest at its first
// index, costs a dozen instructions.
PSI_stage_progress *start_stage(PSI_stage_key key, const char *file, int line) {
  static_assert(static_cast<uint64_t>(Stage::OTHER) == 0);
  const uint64_t site = word_of(file, line);
  if (sites[first_of(site)].load(std::memory_order_relaxed) != site || deferring.load(std::memory_order_relaxed) != 0)
    return start_unusual_stage(key, file, line, site);
  return before->start_stage(key, file, line);
}

// A copy of the server's table with our function, and whether it is in use. It stays if another plugin has put its own table
// before it.
PSI table;
bool is_in_chain;
// Makes a look at `is_paused` and `deferring` and the change that follows one step.
std::mutex change;

void put(PSI *from, PSI *to) {
  if (*server_table == from) __atomic_store_n(server_table, to, __ATOMIC_RELEASE);
}

void follow_pause() {
  const std::lock_guard<std::mutex> guard(change);
  if (!is_in_chain) return;
  if (is_paused.load(std::memory_order_seq_cst) && deferring.load(std::memory_order_seq_cst) == 0)
    put(&table, before);
  else
    put(before, &table);
}

}  // namespace

bool hook(void (*listener)(MYSQL_THD, Stage)) {
  server_table = reinterpret_cast<PSI **>(dlsym(RTLD_DEFAULT, "PSI_server"));
  get_stage = reinterpret_cast<decltype(get_stage)>(dlsym(RTLD_DEFAULT, "set_thd_stage_info"));
  if (server_table == nullptr || *server_table == nullptr || get_stage == nullptr) return false;
  on_stage = listener;
  if (is_in_chain) return true;
  before = *server_table;
  table = *before;
  table.start_stage = start_stage;
  __atomic_store_n(server_table, &table, __ATOMIC_RELEASE);
  return is_in_chain = true;
}

void pause() {
  is_paused.store(true, std::memory_order_seq_cst);
  follow_pause();
}

void resume() {
  is_paused.store(false, std::memory_order_seq_cst);
  follow_pause();
}

void at_next_stage(void (*then)(MYSQL_THD)) {
  if (is_in_chain) deferred.set(then);
}

void run_deferred() {
  if (deferring.load(std::memory_order_relaxed) != 0) call_deferred();
}

void unhook() {
  const std::lock_guard<std::mutex> guard(change);
  if (!is_in_chain || *server_table != &table) return;
  put(&table, before);
  is_in_chain = false;
}

}  // namespace flifo::stages
