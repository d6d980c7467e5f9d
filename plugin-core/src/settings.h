// The scheduler, and the settings that configure it.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// The server's part declares the system variables and writes their values to `values`; names, bounds, defaults and texts are here.
// Failure: if the scheduler refuses a configuration, the old one stays.
#pragma once

#include <flifo.h>

namespace flifo::settings {

constexpr unsigned LIMIT_MAX = 1023;
// The value of `flifo_thread_concurrency` that means auto; below it the value is the limit.
constexpr unsigned long AUTO = LIMIT_MAX + 1;

// The values of the variables. The server writes them under its lock for global variables.
struct Values {
  // The number of a policy is its index in `policy_names`.
  unsigned long thread_concurrency, policy;
  unsigned queue_timeout_ms, max_queue, io_depth, quantum_us, stall_limit_ms;
  char reserve_slots;
};
extern Values values;

// A setting that is a number.
struct Number {
  const char *name;
  unsigned min, def, max;
  const char *help;
  // Statements that pass this bound fail, which the server must be able to do unless it is 0.
  bool fails_statements;
};

constexpr unsigned QUANTUM_US_MAX = 1000000, COUNT_MAX = 1000000, DAY_MS = 86400000;
// Long enough for many round trips with a client: with a shorter one every statement queues.
inline constexpr Number QUANTUM{"flifo_quantum", 1, 3000, QUANTUM_US_MAX,
                                "Time slice of a connection in microseconds, before it queues behind the others (policy quantum)", false};
inline constexpr Number QUEUE_TIMEOUT{
    "flifo_queue_timeout", 0, 0, DAY_MS,
    "Longest time in the queue in milliseconds, after which a statement fails with error 1205. 0 = unlimited", true};
inline constexpr Number MAX_QUEUE{"flifo_max_queue", 0, 0, COUNT_MAX,
                                  "Maximum number of queued statements; one more fails with error 1205. 0 = unlimited", true};
inline constexpr Number STALL_LIMIT{"flifo_stall_limit", 0, 100, DAY_MS,
                                    "Milliseconds a statement may run while others queue, before its slot goes to the next one and "
                                    "it runs on without. 0 = never",
                                    false};
inline constexpr Number IO_DEPTH{
    "flifo_io_depth", 0, 64, COUNT_MAX,
    "Maximum number of disk waits that release their slots at once; one more keeps its slot. 0 = unlimited", false};

constexpr unsigned long DEFAULT_POLICY = 3;
constexpr char CONCURRENCY_HELP[] =
    "Maximum number of statements executing at once; others queue. 0 = unlimited, auto = two per CPU while that does more work than "
    "no limit";
constexpr char POLICY_HELP[] =
    "The order of statements. quantum: a time slice per connection; flifo: arrival order, but newcomers enter while woken statements "
    "do not run yet; fifo: strict arrival order; none: no limit";
constexpr char RESERVE_SLOTS_HELP[] =
    "Reserve a free slot for a connection expected back at once (policy quantum). Favours clients on the server's own machine, and "
    "slows clients that think";

// The texts of all values of `flifo_thread_concurrency` and `flifo_policy`, by number; null behind the last. A server accepts a number
// or a word for one variable only if it knows the texts of all values.
extern const char *concurrency_names[AUTO + 2];
constexpr unsigned POLICY_COUNT = 4;
extern const char *policy_names[POLICY_COUNT + 1];

// Read a value that a user gave. Return null, or what is allowed instead.
const char *parse_concurrency(const char *text, unsigned long &value);
const char *parse_policy(const char *text, unsigned long &value);
const char *parse_switch(const char *text, char &value);
// Returns null if the setting may have this value, else what is allowed. The text is this thread's until its next call.
const char *check(const Number &setting, long long value);

// Creates the scheduler from `values`. Returns null, or one line that says what is wrong.
const char *open();
// Frees the scheduler.
void close();
// Configures the scheduler with `values`, which may be before `open`. Returns null, or one line that says why the old configuration
// stays.
const char *apply();
// The scheduler. All zero before `open`.
flifo_admission_t admission();
// Whether there is a limit: `flifo_thread_concurrency` is not 0.
bool is_on();

}  // namespace flifo::settings
