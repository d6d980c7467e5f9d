// SPDX-License-Identifier: GPL-2.0-only

#include "settings.h"

#include "server.h"

#include <strings.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>

namespace flifo::settings {
namespace {

constexpr unsigned LIMIT_MAX = 1023;
// The value of `flifo_thread_concurrency` that means auto; below it the value is the limit.
constexpr unsigned long AUTO = LIMIT_MAX + 1;
constexpr unsigned COUNT_MAX = 1000000, DAY_MS = 86400000;
constexpr unsigned long long NS_PER_MS = 1000000;

flifo_admission_t scheduler;
std::atomic<bool> on{false};

// The values of the variables. The server writes them under its lock for global variables.
unsigned long thread_concurrency = AUTO;
unsigned queue_timeout_ms, max_queue, stall_limit_ms = 100;

// The CPUs this server may use when the plugin is loaded; at least one.
unsigned cpus() {
  static const unsigned number = std::max(1U, std::thread::hardware_concurrency());
  return number;
}

// The server accepts a number or a word for one variable only if it knows the texts of all values.
struct ConcurrencyTexts {
  char texts[AUTO + 1][5];
  const char *names[AUTO + 2];

  ConcurrencyTexts() {
    for (unsigned long value = 0; value < AUTO; value++) snprintf(texts[value], sizeof *texts, "%lu", value);
    strcpy(texts[AUTO], "auto");
    for (unsigned long value = 0; value <= AUTO; value++) names[value] = texts[value];
    names[AUTO + 1] = nullptr;
  }
} concurrency_texts;
const abi::Names concurrencies{AUTO + 1, "", concurrency_texts.names, nullptr};

void fill(flifo_config_t &config) {
  const bool is_auto = thread_concurrency == AUTO;
  config.thread_concurrency = is_auto ? std::min(2 * cpus(), LIMIT_MAX) : static_cast<unsigned>(thread_concurrency);
  config.adaptive = is_auto;
  config.queue_limit = max_queue;
  config.queue_timeout_ns = queue_timeout_ms * NS_PER_MS;
  config.stall_limit_ns = stall_limit_ms * NS_PER_MS;
  on.store(config.thread_concurrency != 0, std::memory_order_relaxed);
}

void apply() {
  flifo_config_t config;
  // The server sets variables before `open`, too, which reads them all.
  if (flifo_admission_config(scheduler, &config, sizeof config) != FLIFO_OK) return;
  fill(config);
  if (flifo_reconfigure(scheduler, &config) != FLIFO_OK) server::log_warning(flifo_last_error());
}

template <class T>
void update(THD *, abi::Variable *, void *variable, const void *save) {
  *static_cast<T *>(variable) = *static_cast<const T *>(save);
  apply();
}

// Copies the text of a value, cut off if it is long; "NULL" if it has none.
void copy_text(abi::Value *value, char (&text)[32]) {
  char buffer[sizeof text];
  int length = sizeof buffer;
  const char *given = value->text(value, buffer, &length);
  if (given == nullptr) given = "NULL", length = 4;
  const size_t kept = std::min<size_t>(static_cast<size_t>(length), sizeof text - 1);
  memcpy(text, given, kept);
  text[kept] = '\0';
  // Cut off: it must not equal any allowed value.
  if (kept < static_cast<size_t>(length)) memcpy(text + sizeof text - 4, "...", 4);
}

int refuse(const char *name, const char *allowed, abi::Value *value) {
  char given[32], line[160];
  copy_text(value, given);
  snprintf(line, sizeof line, "flifo_%s must be %s, not '%s'", name, allowed, given);
  server::fail(abi::ERROR_WRONG_VALUE, line);
  return 1;
}

int check_concurrency(THD *, abi::Variable *, void *save, abi::Value *value) {
  char text[32];
  copy_text(value, text);
  unsigned long known = 0;
  while (known <= AUTO && strcasecmp(text, concurrency_texts.names[known]) != 0) known++;
  if (known > AUTO) return refuse("thread_concurrency", "auto or a number from 0 to 1023", value);
  *static_cast<unsigned long *>(save) = known;
  return 0;
}

// Without this check the server takes the nearest allowed number, with a warning that few clients show.
template <const char *NAME, unsigned MOST>
int check_number(THD *, abi::Variable *, void *save, abi::Value *value) {
  long long number;
  if (value->integer(value, &number) != 0 || number < 0 || number > MOST) {
    char allowed[64];
    snprintf(allowed, sizeof allowed, "a number from 0 to %u", MOST);
    return refuse(NAME, allowed, value);
  }
  *static_cast<unsigned *>(save) = static_cast<unsigned>(number);
  return 0;
}

constexpr char STALL_LIMIT[] = "stall_limit", QUEUE_TIMEOUT[] = "queue_timeout", MAX_QUEUE[] = "max_queue";
constexpr int UNSIGNED = abi::VARIABLE_INT | abi::VARIABLE_UNSIGNED;

abi::EnumVariable concurrency_variable{
    {abi::VARIABLE_ENUM, "thread_concurrency",
     "Maximum number of statements executing at once; others queue. 0 = unlimited, auto = two per CPU while that does more work than no "
     "limit",
     check_concurrency, update<unsigned long>},
    &thread_concurrency, AUTO, &concurrencies};
abi::UnsignedVariable queue_timeout_variable{
    {UNSIGNED, QUEUE_TIMEOUT, "Longest time in the queue in milliseconds, after which a statement fails with error 1205. 0 = unlimited",
     check_number<QUEUE_TIMEOUT, DAY_MS>, update<unsigned>},
    &queue_timeout_ms, 0, 0, DAY_MS, 0};
abi::UnsignedVariable max_queue_variable{
    {UNSIGNED, MAX_QUEUE, "Maximum number of queued statements; one more fails with error 1205. 0 = unlimited",
     check_number<MAX_QUEUE, COUNT_MAX>, update<unsigned>},
    &max_queue, 0, 0, COUNT_MAX, 0};
abi::UnsignedVariable stall_limit_variable{
    {UNSIGNED, STALL_LIMIT,
     "Milliseconds a statement may run while others queue, before its slot goes to the next one and it runs on without. 0 = never",
     check_number<STALL_LIMIT, DAY_MS>, update<unsigned>},
    &stall_limit_ms, 100, 0, DAY_MS, 0};

}  // namespace

const char *open(flifo_admission_t &admission) {
  flifo_config_t config;
  flifo_config_init(&config, sizeof config);
  fill(config);
  // The text is this thread's until its next call.
  if (flifo_admission_new(&config, &scheduler) != FLIFO_OK) return flifo_last_error();
  admission = scheduler;
  return nullptr;
}

void close() {
  on.store(false, std::memory_order_relaxed);
  flifo_admission_free(scheduler);
  scheduler = {};
}

flifo_admission_t admission() { return scheduler; }
bool is_on() { return on.load(std::memory_order_relaxed); }

abi::Variable *variables[] = {&concurrency_variable, &stall_limit_variable, &queue_timeout_variable, &max_queue_variable, nullptr};

}  // namespace flifo::settings
