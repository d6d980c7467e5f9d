// SPDX-License-Identifier: GPL-2.0-only

#include "settings.h"

#include "dormancy.h"
#include "waits.h"

#include <mysqld_error.h>
#include <typelib.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <thread>

namespace flifo::settings {
namespace {

constexpr unsigned LIMIT_MAX = 1023;
// The value of `flifo_thread_concurrency` that means auto; below it the value is the limit.
constexpr unsigned long AUTO = LIMIT_MAX + 1;
constexpr unsigned QUANTUM_US_MAX = 1000000, COUNT_MAX = 1000000, DAY_MS = 86400000;
// Statements that a procedure runs on one slot before it queues again.
constexpr unsigned TICKETS = 5000;

flifo_admission_t scheduler;
std::atomic<bool> on{false};

// The values of the variables. The server writes them under its lock for global variables.
unsigned long thread_concurrency, policy;
unsigned queue_timeout_ms, max_queue, io_depth, quantum_us, stall_limit_ms;
char reserve_slots;

// The CPUs this server may use when the plugin is loaded; at least one.
unsigned cpus() {
  static const unsigned number = std::max(1U, std::thread::hardware_concurrency());
  return number;
}

// Not an initializer, since newer servers have more members.
TYPELIB values(unsigned count, const char **names) {
  TYPELIB all{};
  all.count = count;
  all.name = "";
  all.type_names = names;
  return all;
}

// The server accepts a number or a word for one variable only if it knows the texts of all values.
struct Concurrencies {
  char texts[AUTO + 1][5];
  const char *names[AUTO + 2];

  Concurrencies() {
    for (unsigned value = 0; value <= AUTO; value++) {
      snprintf(texts[value], sizeof *texts, "%u", value);
      names[value] = texts[value];
    }
    strcpy(texts[AUTO], "auto");
    names[AUTO + 1] = nullptr;
  }
} concurrency_texts;
TYPELIB concurrencies = values(AUTO + 1, concurrency_texts.names);

const char *policy_names[] = {"none", "fifo", "flifo", "quantum", nullptr};
constexpr flifo_policy_t POLICIES[] = {FLIFO_POLICY_NONE, FLIFO_POLICY_FIFO, FLIFO_POLICY_FLIFO, FLIFO_POLICY_QUANTUM};
constexpr unsigned long DEFAULT_POLICY = 3;
TYPELIB policies = values(std::size(POLICIES), policy_names);

void fill(flifo_config_t &config) {
  const bool is_auto = thread_concurrency == AUTO;
  config.policy = POLICIES[policy];
  config.thread_concurrency =
      is_auto ? std::min(2 * cpus(), LIMIT_MAX) : static_cast<unsigned>(thread_concurrency);
  config.adaptive = is_auto;
  config.concurrency_tickets = TICKETS;
  config.wait_mask = waits::MASK;
  config.io_depth = io_depth;
  // Waiters keep their slots here, so the limit itself bounds them.
  config.lock_waiters_max = 0;
  config.queue_limit = max_queue;
  config.queue_timeout_ns = queue_timeout_ms * 1000000ULL;
  config.quantum_ns = quantum_us * 1000ULL;
  config.stall_limit_ns = stall_limit_ms * 1000000ULL;
  config.reserve_slots = reserve_slots != 0;
  on.store(config.thread_concurrency != 0, std::memory_order_relaxed);
}

void apply() {
  flifo_config_t config;
  // The server sets variables before `open`, too, which reads them all.
  if (flifo_admission_config(scheduler, &config, sizeof config) != FLIFO_OK) return;
  fill(config);
  if (flifo_reconfigure(scheduler, &config) != FLIFO_OK)
    my_printf_error(ER_UNKNOWN_ERROR, "flifo: %s", ME_WARNING | ME_ERROR_LOG, flifo_last_error());
  // So that the next statement sees the setting.
  dormancy::wake(scheduler);
}

template <class T>
void update(MYSQL_THD, st_mysql_sys_var *, void *variable, const void *save) {
  *static_cast<T *>(variable) = *static_cast<const T *>(save);
  apply();
}

// The text of a value for comparison and for errors, cut off if it is long; "NULL" if it has none.
struct ValueText {
  char text[32];

  explicit ValueText(st_mysql_value *value) {
    char buffer[sizeof text];
    int length = sizeof buffer;
    const char *given = value->val_str(value, buffer, &length);
    if (given == nullptr) given = "NULL", length = 4;
    const size_t kept = std::min<size_t>(static_cast<size_t>(length), sizeof text - 1);
    memcpy(text, given, kept);
    text[kept] = '\0';
    // Cut off: it must not equal any allowed value.
    if (kept < static_cast<size_t>(length)) memcpy(text + sizeof text - 4, "...", 4);
  }

  bool is(const char *name) const { return strcasecmp(text, name) == 0; }

  // The first of the names that it equals; `count` if there is none.
  unsigned long find(const char *const *names, unsigned long count) const {
    unsigned long at = 0;
    while (at < count && !is(names[at])) at++;
    return at;
  }
};

int refuse(const char *name, const char *allowed, st_mysql_value *value) {
  my_printf_error(ER_WRONG_VALUE_FOR_VAR, "%s must be %s, not '%s'", 0, name, allowed, ValueText(value).text);
  return 1;
}

int check_concurrency(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  const unsigned long known = ValueText(value).find(concurrency_texts.names, AUTO + 1);
  if (known > AUTO) return refuse("flifo_thread_concurrency", "auto or a number from 0 to 1023", value);
  *static_cast<unsigned long *>(save) = known;
  return 0;
}

int check_policy(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  const unsigned long known = ValueText(value).find(policy_names, std::size(POLICIES));
  if (known == std::size(POLICIES)) return refuse("flifo_policy", "none, fifo, flifo or quantum", value);
  *static_cast<unsigned long *>(save) = known;
  return 0;
}

constexpr char IO_DEPTH[] = "flifo_io_depth", QUANTUM[] = "flifo_quantum", STALL_LIMIT[] = "flifo_stall_limit",
               QUEUE_TIMEOUT[] = "flifo_queue_timeout", MAX_QUEUE[] = "flifo_max_queue",
               RESERVE_SLOTS[] = "flifo_reserve_slots", BYPASS[] = "flifo_bypass";

// Without this check the server takes the nearest allowed number, with a warning that few clients show.
template <const char *NAME, unsigned LEAST, unsigned MOST>
int check_number(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  long long number;
  if (value->val_int(value, &number) != 0 || number < LEAST || number > MOST) {
    char allowed[64];
    snprintf(allowed, sizeof allowed, "a number from %u to %u", LEAST, MOST);
    return refuse(NAME, allowed, value);
  }
  *static_cast<unsigned *>(save) = static_cast<unsigned>(number);
  return 0;
}

// For a bound on the queue: the server must be able to fail a statement, unless the bound is 0.
template <const char *NAME, unsigned MOST>
int check_bound(MYSQL_THD thd, st_mysql_sys_var *variable, void *save, st_mysql_value *value) {
  if (check_number<NAME, 0, MOST>(thd, variable, save, value) != 0) return 1;
  if (*static_cast<unsigned *>(save) == 0 || server::can_refuse()) return 0;
  return refuse(NAME, "0, since this server cannot fail a queued statement", value);
}

template <const char *NAME>
int check_switch(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  const ValueText text(value);
  const bool is_yes = text.is("1") || text.is("on") || text.is("true");
  if (!is_yes && !text.is("0") && !text.is("off") && !text.is("false"))
    return refuse(NAME, "ON or OFF (1 or 0)", value);
  *static_cast<char *>(save) = is_yes;
  return 0;
}

int check_bypass(MYSQL_THD thd, st_mysql_sys_var *variable, void *save, st_mysql_value *value) {
  if (check_switch<BYPASS>(thd, variable, save, value) != 0) return 1;
  if (*static_cast<char *>(save) == 0 || server::may_bypass(thd)) return 0;
  my_error(ER_SPECIFIC_ACCESS_DENIED_ERROR, 0, "CONNECTION ADMIN, SUPER, REPLICATION SLAVE");
  return 1;
}

MYSQL_SYSVAR_ENUM(thread_concurrency, thread_concurrency, PLUGIN_VAR_RQCMDARG,
                  "Maximum number of statements executing at once; others queue. 0 = unlimited, auto = two per CPU while that "
                  "does more work than no limit",
                  check_concurrency, update<unsigned long>, AUTO, &concurrencies);

MYSQL_SYSVAR_ENUM(policy, policy, PLUGIN_VAR_RQCMDARG,
                  "The order of statements. quantum: a time slice per connection; flifo: arrival order, but newcomers enter "
                  "while woken statements do not run yet; fifo: strict arrival order; none: no limit",
                  check_policy, update<unsigned long>, DEFAULT_POLICY, &policies);
// Long enough for many round trips with a client: with a shorter one every statement queues.
MYSQL_SYSVAR_UINT(quantum, quantum_us, PLUGIN_VAR_RQCMDARG,
                  "Time slice of a connection in microseconds, before it queues behind the others (policy quantum)",
                  (check_number<QUANTUM, 1, QUANTUM_US_MAX>), update<unsigned>, 3000, 1, QUANTUM_US_MAX, 0);
MYSQL_SYSVAR_UINT(queue_timeout, queue_timeout_ms, PLUGIN_VAR_RQCMDARG,
                  "Longest time in the queue in milliseconds, after which a statement fails with error 1205. 0 = unlimited",
                  (check_bound<QUEUE_TIMEOUT, DAY_MS>), update<unsigned>, 0, 0, DAY_MS, 0);
MYSQL_SYSVAR_UINT(max_queue, max_queue, PLUGIN_VAR_RQCMDARG,
                  "Maximum number of queued statements; one more fails with error 1205. 0 = unlimited",
                  (check_bound<MAX_QUEUE, COUNT_MAX>), update<unsigned>, 0, 0, COUNT_MAX, 0);
MYSQL_SYSVAR_UINT(stall_limit, stall_limit_ms, PLUGIN_VAR_RQCMDARG,
                  "Milliseconds a statement may run while others queue, before its slot goes to the next one and it runs on "
                  "without. 0 = never",
                  (check_number<STALL_LIMIT, 0, DAY_MS>), update<unsigned>, 100, 0, DAY_MS, 0);
MYSQL_SYSVAR_UINT(io_depth, io_depth, PLUGIN_VAR_RQCMDARG,
                  "Maximum number of disk waits that release their slots at once; one more keeps its slot. 0 = unlimited",
                  (check_number<IO_DEPTH, 0, COUNT_MAX>), update<unsigned>, 64, 0, COUNT_MAX, 0);
MYSQL_SYSVAR_BOOL(reserve_slots, reserve_slots, PLUGIN_VAR_OPCMDARG,
                  "Reserve a free slot for a connection expected back at once (policy quantum). Favours clients on the "
                  "server's own machine, and slows clients that think",
                  check_switch<RESERVE_SLOTS>, update<char>, 0);
MYSQL_THDVAR_BOOL(bypass, PLUGIN_VAR_NOCMDOPT,
                  "Run the session's statements without admission; needs CONNECTION ADMIN, SUPER or REPLICATION SLAVE", check_bypass, nullptr, 0);

}  // namespace

const char *open(flifo_admission_t &admission) {
  if ((queue_timeout_ms != 0 || max_queue != 0) && !server::can_refuse())
    return "flifo_queue_timeout and flifo_max_queue do not work with this server: set them to 0";
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
bool bypasses(MYSQL_THD thd) { return THDVAR(thd, bypass) != 0; }

st_mysql_sys_var *variables[] = {
    MYSQL_SYSVAR(thread_concurrency), MYSQL_SYSVAR(policy),      MYSQL_SYSVAR(quantum),
    MYSQL_SYSVAR(queue_timeout),      MYSQL_SYSVAR(max_queue),   MYSQL_SYSVAR(stall_limit),
    MYSQL_SYSVAR(io_depth),           MYSQL_SYSVAR(reserve_slots), MYSQL_SYSVAR(bypass),
    nullptr,
};

}  // namespace flifo::settings
