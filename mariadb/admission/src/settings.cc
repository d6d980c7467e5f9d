// SPDX-License-Identifier: GPL-2.0-only

#include "settings.h"

#include "connection.h"
#include "processors.h"

#include <mysqld_error.h>
#include <typelib.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace flifo::settings {
namespace {

constexpr unsigned LIMIT_MAX = 1023;
// The value of `flifo_thread_concurrency` that says auto; below it, the value is the limit.
constexpr unsigned long AUTO = LIMIT_MAX + 1;

flifo_admission_t scheduler;
std::atomic<bool> on{false}, lends{false}, yields_first{false};
// What `stall_after_ms` is, for another thread.
std::atomic<unsigned> stalls_after{0};
// What `read_concurrency_max` is, for statements.
std::atomic<unsigned> reads_up_to{0};

// What the variables hold. The server writes the numbers itself, under its lock for global variables.
unsigned long thread_concurrency;
unsigned long policy;
unsigned concurrency_tickets;
unsigned queue_timeout_ms;
unsigned max_queue;
unsigned io_depth;
unsigned disk_bound_percent;
unsigned lock_waiters;
unsigned quantum_us;
unsigned overtakes;
unsigned stall_after_ms;
unsigned long long wait_mask;
unsigned read_concurrency_max;
char lend_sleepers;
char anticipate;
char yield;

// Of a variable whose values are these. Not by an initializer: newer servers have more members.
TYPELIB values(unsigned count, const char **names) {
  TYPELIB all{};
  all.count = count;
  all.name = "";
  all.type_names = names;
  return all;
}

// The texts of all values of `flifo_thread_concurrency`. The server takes a number or a text for a variable only if
// it knows all its values.
struct Concurrencies {
  char texts[AUTO + 1][5];
  const char *names[AUTO + 2];

  Concurrencies() {
    for (unsigned limit = 0; limit <= LIMIT_MAX; limit++) snprintf(texts[limit], sizeof *texts, "%u", limit);
    strcpy(texts[AUTO], "auto");
    for (unsigned long value = 0; value <= AUTO; value++) names[value] = texts[value];
    names[AUTO + 1] = nullptr;
  }
} concurrencies_texts;
TYPELIB concurrencies = values(AUTO + 1, concurrencies_texts.names);

void fill(flifo_config_t &config) {
  const bool finds_itself = thread_concurrency == AUTO;
  config.policy = static_cast<int32_t>(policy);
  config.thread_concurrency = finds_itself ? std::min(2 * processors(), LIMIT_MAX) : thread_concurrency;
  config.auto_floor = finds_itself ? std::min(processors(), LIMIT_MAX) : 0;
  config.auto_ceiling = finds_itself ? std::min(64 * processors(), LIMIT_MAX) : 0;
  config.concurrency_tickets = concurrency_tickets;
  config.wait_mask = static_cast<uint32_t>(wait_mask);
  config.io_depth = io_depth;
  config.disk_bound_percent = disk_bound_percent;
  config.anticipate = anticipate != 0;
  config.lock_waiters_max = lock_waiters;
  config.queue_limit = max_queue;
  config.queue_timeout_ns = queue_timeout_ms * 1000000ULL;
  config.quantum_ns = quantum_us * 1000ULL;
  config.overtakes_max = overtakes;
  config.stall_after_ns = stall_after_ms * 1000000ULL;
  on.store(config.thread_concurrency != 0, std::memory_order_relaxed);
  lends.store(lend_sleepers != 0, std::memory_order_relaxed);
  yields_first.store(yield != 0, std::memory_order_relaxed);
  stalls_after.store(stall_after_ms, std::memory_order_relaxed);
  reads_up_to.store(policy == FLIFO_POLICY_QUANTUM ? read_concurrency_max : 0, std::memory_order_relaxed);
}

void apply() {
  flifo_config_t config;
  // Before the scheduler is there the server sets variables too; `open` reads them all.
  if (flifo_admission_config(scheduler, &config, sizeof config) != FLIFO_OK) return;
  fill(config);
  if (flifo_reconfigure(scheduler, &config) != FLIFO_OK)
    my_printf_error(ER_UNKNOWN_ERROR, "flifo: %s", ME_WARNING | ME_ERROR_LOG, flifo_last_error());
}

// The text of a value, or null if it has none or a longer one than any that is allowed.
template <size_t SIZE>
const char *text_of(st_mysql_value *value, char (&copy)[SIZE]) {
  char buffer[SIZE];
  int length = sizeof buffer;
  const char *text = value->val_str(value, buffer, &length);
  if (text == nullptr || length >= static_cast<int>(SIZE)) return nullptr;
  memcpy(copy, text, static_cast<size_t>(length));
  copy[length] = '\0';
  return copy;
}

int check_concurrency(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  char copy[32];
  const char *text = text_of(value, copy);
  for (unsigned long known = 0; text != nullptr && known <= AUTO; known++) {
    if (strcasecmp(text, concurrencies_texts.texts[known]) != 0) continue;
    *static_cast<unsigned long *>(save) = known;
    return 0;
  }
  my_printf_error(ER_WRONG_VALUE_FOR_VAR,
                  "flifo_thread_concurrency must be 0 (no limit), a number up to %u, or auto, not '%s'", 0, LIMIT_MAX,
                  text == nullptr ? "NULL" : text);
  return 1;
}

template <class T>
void update(MYSQL_THD, st_mysql_sys_var *, void *variable, const void *save) {
  *static_cast<T *>(variable) = *static_cast<const T *>(save);
  apply();
}

// A number within bounds. Without this the server takes the nearest one that is, with a warning that few clients show.
bool take_number(st_mysql_value *value, void *save, const char *name, unsigned least, unsigned most) {
  long long number;
  if (value->val_int(value, &number) != 0 || number < least || number > most) {
    my_printf_error(ER_WRONG_VALUE_FOR_VAR, "%s must be a number from %u to %u", 0, name, least, most);
    return false;
  }
  *static_cast<unsigned *>(save) = static_cast<unsigned>(number);
  return true;
}

constexpr char CONCURRENCY_TICKETS[] = "flifo_concurrency_tickets", IO_DEPTH[] = "flifo_io_depth",
               DISK_BOUND[] = "flifo_disk_bound",
               LOCK_WAITERS[] = "flifo_lock_waiters", QUANTUM[] = "flifo_quantum", OVERTAKES[] = "flifo_overtakes",
               STALL_AFTER[] = "flifo_stall_after", READ_CONCURRENCY[] = "flifo_read_concurrency";
constexpr unsigned QUANTUM_MAX = 1000000, PERCENT_MAX = 100;

template <const char *NAME, unsigned LEAST = 0, unsigned MOST = UINT_MAX>
int check_number(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  return take_number(value, save, NAME, LEAST, MOST) ? 0 : 1;
}

// One that needs the server to end a statement with an error, if it is not 0.
int check_bound(st_mysql_value *value, void *save, const char *name) {
  if (!take_number(value, save, name, 0, UINT_MAX)) return 1;
  if (*static_cast<unsigned *>(save) == 0 || server::can_refuse()) return 0;
  my_printf_error(ER_WRONG_VALUE_FOR_VAR, "%s must be 0: this server cannot end a queued statement with an error", 0,
                  name);
  return 1;
}

int check_queue_timeout(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  return check_bound(value, save, "flifo_queue_timeout");
}

int check_max_queue(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  return check_bound(value, save, "flifo_max_queue");
}

int check_bypass(MYSQL_THD thd, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  char copy[8];
  const char *text = text_of(value, copy);
  const auto is = [text](const char *name) { return text != nullptr && strcasecmp(text, name) == 0; };
  const bool bypasses = is("1") || is("on") || is("true");
  if (!bypasses && !is("0") && !is("off") && !is("false")) return 1;
  if (bypasses && !server::is_connection_admin(thd)) {
    my_error(ER_SPECIFIC_ACCESS_DENIED_ERROR, 0, "CONNECTION ADMIN, SUPER");
    return 1;
  }
  *static_cast<char *>(save) = bypasses;
  return 0;
}

const char *policy_names[] = {"none",  "fifo",  "lifo",   "flifo",   "broadcast",
                              "sleep", "lease", "summon", "quantum", nullptr};
TYPELIB policies = values(std::size(policy_names) - 1, policy_names);
const char *kind_names[] = {"ROW_LOCK", "TABLE_LOCK", "DISK", "NETWORK", "LOG_SYNC", "SLEEP", "USER", nullptr};
TYPELIB kinds = values(FLIFO_WAIT_KINDS, kind_names);

MYSQL_SYSVAR_ENUM(thread_concurrency, thread_concurrency, PLUGIN_VAR_RQCMDARG,
                 "Statements that run at a time; others queue. 0: no limit, statements ask nobody. A number up to "
                 "1023. auto: it finds itself. By default two for each processor",
                 check_concurrency, update<unsigned long>, 2, &concurrencies);
MYSQL_SYSVAR_UINT(read_concurrency, read_concurrency_max, PLUGIN_VAR_RQCMDARG,
                  "Statements that only read are let in past flifo_thread_concurrency while nobody queues, up to so many inside (policy "
                  "quantum). 0: none. By default eight for each processor",
                  (check_number<READ_CONCURRENCY, 0, LIMIT_MAX>), update<unsigned>, 0, 0, LIMIT_MAX, 0);
// The server reads the defaults when it loads the plugin, which is after this.
const struct SetDefaults {
  SetDefaults() {
    MYSQL_SYSVAR_NAME(thread_concurrency).def_val = std::min(2 * processors(), LIMIT_MAX);
    MYSQL_SYSVAR_NAME(read_concurrency).def_val = std::min(8 * processors(), LIMIT_MAX);
  }
} set_defaults;

MYSQL_SYSVAR_ENUM(policy, policy, PLUGIN_VAR_RQCMDARG,
                  "Who runs next. quantum: in turns; flifo: in order, but a newcomer runs at once while woken threads "
                  "do not run yet; fifo: strictly in order. Others for comparison: none, lifo, broadcast, sleep, lease, "
                  "summon",
                  nullptr, update<unsigned long>, FLIFO_POLICY_QUANTUM, &policies);
MYSQL_SYSVAR_UINT(concurrency_tickets, concurrency_tickets, PLUGIN_VAR_RQCMDARG,
                  "Statements that a procedure runs on one place before it queues again",
                  (check_number<CONCURRENCY_TICKETS, 1>), update<unsigned>, 5000, 1, UINT_MAX, 0);
MYSQL_SYSVAR_UINT(queue_timeout, queue_timeout_ms, PLUGIN_VAR_RQCMDARG,
                  "Milliseconds that a statement queues at most; then it fails with error 1969. 0: any time",
                  check_queue_timeout, update<unsigned>, 0, 0, UINT_MAX, 0);
MYSQL_SYSVAR_UINT(max_queue, max_queue, PLUGIN_VAR_RQCMDARG,
                  "Statements that queue at a time; one more fails with error 1637. 0: any number", check_max_queue,
                  update<unsigned>, 0, 0, UINT_MAX, 0);
MYSQL_SYSVAR_UINT(io_depth, io_depth, PLUGIN_VAR_RQCMDARG,
                  "Disk waits that give up their places at a time; one more keeps its place. 0: any number",
                  check_number<IO_DEPTH>, update<unsigned>, 0, 0, UINT_MAX, 0);
MYSQL_SYSVAR_UINT(disk_bound, disk_bound_percent, PLUGIN_VAR_RQCMDARG,
                  "When so many of 100 statements wait for a disk, the limit is lifted, as long as nobody would queue then, until "
                  "fewer than half as many do: there is little for a limit to win there. 0: never",
                  (check_number<DISK_BOUND, 0, PERCENT_MAX>), update<unsigned>, 50, 0, PERCENT_MAX, 0);
MYSQL_SYSVAR_UINT(lock_waiters, lock_waiters, PLUGIN_VAR_RQCMDARG,
                  "When so many statements wait for row locks, transactions that hold none get as many places as half the "
                  "processors. 0: any number",
                  check_number<LOCK_WAITERS>, update<unsigned>, 0, 0, UINT_MAX, 0);
// Many round trips with a client: shorter than one, and every statement would queue.
MYSQL_SYSVAR_UINT(quantum, quantum_us, PLUGIN_VAR_RQCMDARG,
                  "Microseconds that a connection may keep coming back before it queues behind the others (policy "
                  "quantum)",
                  (check_number<QUANTUM, 1, QUANTUM_MAX>), update<unsigned>, 3000, 1, QUANTUM_MAX, 0);
MYSQL_SYSVAR_UINT(overtakes, overtakes, PLUGIN_VAR_RQCMDARG,
                  "Newcomers that may run at once for each statement that is served from the queue (policy quantum). "
                  "The fewer, the more even are the waits; the more, the fewer context switches. 0: any number",
                  check_number<OVERTAKES>, update<unsigned>, 2, 0, UINT_MAX, 0);
MYSQL_SYSVAR_UINT(stall_after, stall_after_ms, PLUGIN_VAR_RQCMDARG,
                  "The place of a statement that has been inside for so many milliseconds while others queue goes to the "
                  "next until it leaves; and when nobody has entered or left for so long, one more is let in. 0: never",
                  check_number<STALL_AFTER>, update<unsigned>, 100, 0, UINT_MAX, 0);
MYSQL_SYSVAR_SET(wait_mask, wait_mask, PLUGIN_VAR_RQCMDARG,
                 "The waits during which a statement gives up its place. Without ROW_LOCK it keeps it, but for a "
                 "transaction that holds locks",
                 nullptr, update<unsigned long long>, FLIFO_WAIT_MASK_ALL & ~(1U << FLIFO_WAIT_ROW_LOCK), &kinds);
MYSQL_SYSVAR_BOOL(lend_sleepers, lend_sleepers, PLUGIN_VAR_OPCMDARG,
                  "The place of a statement whose thread sleeps, of which the server does not tell, or for a row lock for "
                  "some milliseconds, goes to the next until it runs again",
                  nullptr, update<char>, 1);
MYSQL_SYSVAR_BOOL(anticipate, anticipate, PLUGIN_VAR_OPCMDARG,
                  "Where many queue, the place of a connection in its turn may wait for its next statement, if trials find that "
                  "more is done so (policy quantum)",
                  nullptr, update<char>, 1);
MYSQL_SYSVAR_BOOL(yield, yield, PLUGIN_VAR_OPCMDARG,
                  "Before a connection that has only read sleeps until its client's next statement it lets others run: a client on the same machine has sent "
                  "it then, mostly, and need not wake the connection",
                  nullptr, update<char>, 1);
MYSQL_THDVAR_BOOL(bypass, PLUGIN_VAR_NOCMDOPT, "The session's statements ask nobody; needs CONNECTION ADMIN or SUPER",
                  check_bypass, nullptr, 0);

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

bool lends_sleepers() { return lends.load(std::memory_order_relaxed); }

std::chrono::milliseconds stall_after() {
  return std::chrono::milliseconds(stalls_after.load(std::memory_order_relaxed));
}

unsigned read_concurrency() { return reads_up_to.load(std::memory_order_relaxed); }

bool yields() { return yields_first.load(std::memory_order_relaxed); }

bool bypasses(MYSQL_THD thd) { return THDVAR(thd, bypass) != 0; }

st_mysql_sys_var *variables[] = {
    MYSQL_SYSVAR(thread_concurrency), MYSQL_SYSVAR(policy),       MYSQL_SYSVAR(concurrency_tickets),
    MYSQL_SYSVAR(queue_timeout),      MYSQL_SYSVAR(max_queue),    MYSQL_SYSVAR(io_depth),
    MYSQL_SYSVAR(disk_bound),         MYSQL_SYSVAR(lock_waiters), MYSQL_SYSVAR(quantum),
    MYSQL_SYSVAR(overtakes),          MYSQL_SYSVAR(stall_after),  MYSQL_SYSVAR(lend_sleepers),
    MYSQL_SYSVAR(wait_mask),          MYSQL_SYSVAR(anticipate),   MYSQL_SYSVAR(read_concurrency),
    MYSQL_SYSVAR(yield),              MYSQL_SYSVAR(bypass),       nullptr,
};

}  // namespace flifo::settings
