/*
 * libflifo: an admission scheduler. It keeps a server at its peak throughput, however many threads pile up.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * At most `thread_concurrency` threads are inside at a time. A thread that enters gets a place and tickets:
 * the engine entries it may make before it must ask again. A thread that leaves (its statement ends, it waits
 * for a lock or a disk) hands its place to the head of a queue.
 *
 *     flifo_config_t config;
 *     flifo_admission_t admission;
 *     flifo_session_t session;
 *
 *     flifo_config_init(&config, sizeof config);
 *     config.thread_concurrency = 4;
 *     flifo_admission_new(&config, &admission);     once
 *     flifo_session_new(admission, &session);       once for each connection
 *
 *     flifo_enter(session);                         each statement, and each row: queues if it must; who is
 *                                                   refused is outside, and cannot go on
 *     flifo_wait_begin(session, FLIFO_WAIT_DISK);   the place goes to somebody else
 *     flifo_wait_end(session, FLIFO_WAIT_DISK);     and back, at once
 *     flifo_exit(session);                          before the reply is sent
 *
 *     flifo_session_free(session);
 *     flifo_admission_free(admission);
 *
 * RULES
 *
 * - Every function but those that give text returns a flifo_status_t. A mistake is told, and does nothing: an
 *   exit without an enter, a handle that was freed, a null pointer, a session that is used by two threads.
 *   What cannot be told is a pointer that is wrong without being null, and text that does not end.
 * - Handles are numbers in a struct, to be passed and kept by value. A freed one never becomes good again.
 * - Functions on an admission, a canceller or a tenant may be called from any thread at any time. A session
 *   may move between threads, but serves one at a time; to hand it over, finish the call before.
 * - Nothing here is for a signal handler. A thread must not be cancelled, nor jump away, in a call.
 * - After fork the child may use none of the parent's schedulers and sessions. It can make new ones only if no
 *   other thread was in a call meanwhile, whose locks stay locked in the child: fork before, or exec.
 * - No call holds a lock of the library while it sleeps; only flifo_enter, flifo_enter_until and
 *   flifo_wait_end_may_queue sleep.
 * - The shared library stays mapped when it is closed with dlclose. If you link the static one into something
 *   that is unloaded, link that with -z nodelete: a scheduler's watchdog thread may still run for a moment.
 *
 * IN A SERVER'S PLUGIN
 *
 * What a database server's plugin (MariaDB's, say) needs, and where it is:
 *
 * - One session for each connection, kept in a map of the plugin's own from the connection to the handle.
 *   flifo_session_new at its first statement, flifo_enter where a statement begins, flifo_exit where it ends,
 *   flifo_session_free at disconnect. Both of the latter may come twice or without the former: the status
 *   says so, and nothing happens.
 * - KILL: make a canceller with each session. A thread of the plugin's that looks at what is killed calls
 *   flifo_cancel; flifo_enter returns FLIFO_CANCELLED to the statement that queued. Call flifo_forget_cancel
 *   where a statement begins, so that a late KILL QUERY does not hit the next statement.
 * - The server's wait callbacks: flifo_wait_begin and flifo_wait_end, with the kind the server names. End waits
 *   with flifo_wait_end wherever the server may hold a latch, a mutex or a row lock, since it never blocks; only
 *   where it holds nothing that others wait for (a sleep outside of a transaction) flifo_wait_end_may_queue.
 * - A transaction that holds locks: flifo_set_class(session, FLIFO_CLASS_FIRST) from its first lock on,
 *   FLIFO_CLASS_NORMAL after commit or rollback. With lock_waiters_max this keeps a hot row's queue short.
 * - Any transaction: flifo_set_in_transaction where it begins and where it ends, so that its turn is not over before.
 * - System variables: flifo_admission_config, change a field, flifo_reconfigure; flifo_policy_parse and
 *   flifo_policy_name for the policy's. flifo_last_error() is the text for the user when a value is refused.
 * - Status variables: flifo_snapshot once for each SHOW STATUS, into a struct on the stack; flifo_status_text
 *   for the plugin's one-line status.
 * - Licence: MIT or Apache-2.0, as you like; for a GPL-2.0-only work take MIT.
 */


#ifndef FLIFO_H
#define FLIFO_H

/* Generated from admission/capi/src by `make header`. Do not edit. */

#include <stddef.h>
#include <stdint.h>

/**
 * The version of the binary interface. It grows when a program that was compiled with an older header would
 * go wrong with the newer library; added functions, added statuses and structs that grew do not count.
 */
#define FLIFO_ABI_VERSION 1

/**
 * How many kinds of wait there are.
 */
#define FLIFO_WAIT_KINDS 7

/**
 * The `wait_mask` in which every kind of wait gives up the place; kind `k` has the bit `1 << k`.
 */
#define FLIFO_WAIT_MASK_ALL 127

/**
 * Room for kinds of wait that are added later.
 */
#define FLIFO_WAIT_KINDS_MAX 16

/**
 * What came of a call. Everything but `FLIFO_OK` means that the call did nothing, except where it says so, and that
 * an entry that finds no place (`FLIFO_TIMEOUT` to `FLIFO_NO_PLACE`) leaves the session outside: one that was
 * inside, and out of tickets, has lost its place.
 *
 * The first group is for a program to act upon; the second tells of a mistake in the program.
 */
typedef enum {
  /**
   * Done; or: yes.
   */
  FLIFO_OK = 0,
  /**
   * Refused: no place was free in time, by `queue_timeout_ns` or the call's own timeout.
   */
  FLIFO_TIMEOUT = 1,
  /**
   * Refused: no place is free, and `queue_limit` sessions wait already.
   */
  FLIFO_QUEUE_FULL = 2,
  /**
   * Refused: a canceller was used. The cancellation is consumed.
   */
  FLIFO_CANCELLED = 3,
  /**
   * `flifo_try_enter` found no free place. The session is not inside.
   */
  FLIFO_NO_PLACE = 4,
  /**
   * The session is not inside: an exit without an enter, or `flifo_is_inside` says no.
   */
  FLIFO_NOT_INSIDE = 5,
  /**
   * The end of a wait that did not begin.
   */
  FLIFO_NO_WAIT = 6,
  /**
   * An argument is impossible; `flifo_last_error()` says which, and what is allowed.
   */
  FLIFO_INVALID = 7,
  /**
   * The handle is not, or is no longer, one of this kind: freed, freed twice, or never made.
   */
  FLIFO_DEAD_HANDLE = 8,
  /**
   * Another thread is in a call on this session (it may be queued in it). Sessions may move between
   * threads, but serve one at a time.
   */
  FLIFO_IN_USE = 9,
  /**
   * There are as many sessions, schedulers or cancellers as there can be; `flifo_last_error()` says how many.
   */
  FLIFO_TOO_MANY = 10,
  /**
   * A defect of this library was caught; `flifo_last_error()` has its text. If the call was one on a session,
   * the session has left and ended: its handle is dead.
   */
  FLIFO_PANIC = 11,
} flifo_status_t;

/**
 * Who enters when the limit is reached, and who goes first.
 */
typedef enum {
  /**
   * No limit at all: every thread enters at once.
   */
  FLIFO_POLICY_NONE = 0,
  /**
   * Strictly in order: a place is handed to the head of the queue, newcomers queue behind.
   */
  FLIFO_POLICY_FIFO = 1,
  /**
   * The queue is a stack: the last to come is the first to go in.
   */
  FLIFO_POLICY_LIFO = 2,
  /**
   * FIFO hand-off, but a newcomer enters at once while woken threads do not run yet (2009).
   */
  FLIFO_POLICY_FLIFO = 3,
  /**
   * An exit wakes every queued thread and lets them race, for comparison.
   */
  FLIFO_POLICY_BROADCAST = 4,
  /**
   * No queue: poll with an adaptive delay, as InnoDB 5.6 to 8 does, for comparison.
   */
  FLIFO_POLICY_SLEEP = 5,
  /**
   * The set of threads inside changes by time (`lease_ns`).
   */
  FLIFO_POLICY_LEASE = 6,
  /**
   * A place goes to a woken thread only when that thread really runs.
   */
  FLIFO_POLICY_SUMMON = 7,
  /**
   * Round robin with a quantum (`quantum_ns`); from 1 ms on, a thread that took far more of the processor than others do
   * lets them pass. The default.
   */
  FLIFO_POLICY_QUANTUM = 8,
} flifo_policy_t;

/**
 * What a thread inside waits for.
 */
typedef enum {
  /**
   * A row lock held by another transaction.
   */
  FLIFO_WAIT_ROW_LOCK = 0,
  /**
   * A table or metadata lock.
   */
  FLIFO_WAIT_TABLE_LOCK = 1,
  /**
   * A page read from disk.
   */
  FLIFO_WAIT_DISK = 2,
  /**
   * A client that sends or receives.
   */
  FLIFO_WAIT_NETWORK = 3,
  /**
   * The redo log's write or sync.
   */
  FLIFO_WAIT_LOG_SYNC = 4,
  /**
   * A sleep the statement asked for.
   */
  FLIFO_WAIT_SLEEP = 5,
  /**
   * Anything else the embedder declares.
   */
  FLIFO_WAIT_USER = 6,
} flifo_wait_kind_t;

/**
 * Who goes first in the queue.
 */
typedef enum {
  /**
   * Everybody else. What a session begins with.
   */
  FLIFO_CLASS_NORMAL = 0,
  /**
   * A session that holds locks for which others may wait: it goes before the others, so that the locks are
   * released soon.
   */
  FLIFO_CLASS_FIRST = 1,
} flifo_class_t;

/**
 * One connection's handle. All zero: none. See `flifo_session_new`.
 */
typedef struct {
  /**
   * 0: none.
   */
  uint64_t id;
} flifo_session_t;

/**
 * What ends one session's queueing from another thread. All zero: none. See `flifo_canceller_new`.
 */
typedef struct {
  /**
   * 0: none.
   */
  uint64_t id;
} flifo_canceller_t;

/**
 * How a scheduler behaves. Fill it with `flifo_config_init`, then change what you want. Times in nanoseconds.
 *
 * The struct may grow at its end. `struct_size` says what the program was compiled with: a newer library takes
 * an older struct, and leaves what it does not mention as it is; an older library takes a newer struct if all
 * that it does not know is zero.
 */
typedef struct {
  /**
   * `sizeof (flifo_config_t)`; set by `flifo_config_init`.
   */
  size_t struct_size;
  /**
   * Who goes first: a `flifo_policy_t`.
   */
  int32_t policy;
  /**
   * Threads inside at a time, at most 1023; 0: no limit.
   */
  uint32_t thread_concurrency;
  /**
   * With `auto_ceiling`: the lowest limit that is tried.
   */
  uint32_t auto_floor;
  /**
   * Not 0: the limit finds itself between `auto_floor` and this, and begins at `thread_concurrency`, brought between
   * the two.
   */
  uint32_t auto_ceiling;
  /**
   * Engine entries a thread makes on one place before it must ask again; at least 1.
   */
  uint32_t concurrency_tickets;
  /**
   * The waits that give up the place: bit `1 << kind` for each `flifo_wait_kind_t`.
   */
  uint32_t wait_mask;
  /**
   * Disk waits that give up their places at a time; 0: any number.
   */
  uint32_t io_depth;
  /**
   * When so many sessions wait for row locks, but for those that call `flifo_wait_is_long`, others than those of the
   * first class get as many places as half the processors; 0: any number. Half the processors unless set.
   */
  uint32_t lock_waiters_max;
  /**
   * Sessions in the queue at a time; one more is refused with `FLIFO_QUEUE_FULL`. 0: any number.
   */
  uint32_t queue_limit;
  /**
   * 1: the scheduler has a thread of its own for what depends on time alone. 0: call `flifo_step` every few
   * milliseconds. From 1 to 0 at run time: the thread stays, and goes on, until the scheduler ends.
   */
  uint32_t watchdog;
  /**
   * So long a session waits in the queue at most; then it is refused with `FLIFO_TIMEOUT`. 0: for ever.
   */
  uint64_t queue_timeout_ns;
  /**
   * When the head of the queue has waited so long, newcomers overtake it no more. 0: never.
   */
  uint64_t tau_ns;
  /**
   * When somebody waits and nobody has entered or left for so long, one more is let in. 0: never.
   */
  uint64_t stall_after_ns;
  /**
   * After so long in the queue a session of the normal class is promoted past the first class.
   */
  uint64_t promote_after_ns;
  /**
   * Time inside after which a session goes to the queue's tail (`FLIFO_POLICY_QUANTUM`).
   */
  uint64_t quantum_ns;
  /**
   * Time between two changes of the set of threads inside (`FLIFO_POLICY_LEASE`).
   */
  uint64_t lease_ns;
  /**
   * Newcomers that may overtake the queue for each session that is served from it (`FLIFO_POLICY_QUANTUM`);
   * 0: any number.
   */
  uint64_t overtakes_max;
  /**
   * When in at least so many of 100 places there is a wait for a disk, in 500 a second for each processor at least, the limit is
   * lifted to 128 for each processor, until it is in fewer than half as many; not where somebody would queue still, where places
   * wait for row locks, with `auto_ceiling` or `io_depth`. 0: never.
   */
  uint64_t disk_bound_percent;
  /**
   * 1: a place may wait for its session, which left within its turn (`FLIFO_POLICY_QUANTUM`), although others queue, at least eight for
   * each place; the scheduler finds out by trials whether more is done so. Not with `auto_ceiling`. 0: it goes to the next.
   */
  uint64_t anticipate;
} flifo_config_t;

/**
 * A scheduler, shared by all sessions that compete for the same processors. All zero: none.
 *
 * A number, not an address: a handle that was freed is told from a living one for ever. Do not look inside.
 */
typedef struct {
  /**
   * 0: none.
   */
  uint64_t id;
} flifo_admission_t;

/**
 * Whose share of the places a session uses. All zero: the share of those that were given none. It lives as long
 * as its scheduler, and is not freed. See `flifo_tenant_new`.
 */
typedef struct {
  /**
   * 0: the default one.
   */
  uint64_t id;
} flifo_tenant_t;

/**
 * Times of one kind since the scheduler was made, in nanoseconds, each true to 2%; all 0 if there were none. What took
 * longer than 2^42 ns (73 minutes) counts as that.
 */
typedef struct {
  /**
   * How many were measured.
   */
  uint64_t count;
  /**
   * Their mean.
   */
  uint64_t mean_ns;
  /**
   * The median.
   */
  uint64_t p50_ns;
  /**
   * 95% were no longer.
   */
  uint64_t p95_ns;
  /**
   * 99% were no longer.
   */
  uint64_t p99_ns;
  /**
   * 99.9% were no longer.
   */
  uint64_t p999_ns;
  /**
   * The longest; at most 2^42 ns, 73 minutes.
   */
  uint64_t max_ns;
} flifo_times_t;

/**
 * What a scheduler did, and what it is doing. Counters and times are cumulative since it was made.
 *
 * The struct may grow at its end; `flifo_snapshot` is told its size.
 */
typedef struct {
  /**
   * What `flifo_snapshot` was told.
   */
  size_t struct_size;
  /**
   * The policy now: a `flifo_policy_t`.
   */
  int32_t policy;
  /**
   * The limit now; 0: none.
   */
  uint32_t thread_concurrency;
  /**
   * Places out now, to threads running inside or woken to run.
   */
  uint32_t inside;
  /**
   * Threads woken now that do not run yet.
   */
  uint32_t pending;
  /**
   * Threads queued now.
   */
  uint32_t queued;
  /**
   * Sessions now in waits for row locks that gave up their places, but for those whose wait is a long one.
   */
  uint32_t lock_waiters;
  /**
   * Sessions now in waits for disks that gave up their places.
   */
  uint32_t disk_waits;
  /**
   * The most places out so far, those included that processors keep for their next threads.
   */
  uint32_t inside_max;
  /**
   * The highest `pending` so far.
   */
  uint32_t pending_max;
  /**
   * The highest `queued` so far.
   */
  uint32_t queued_max;
  /**
   * Entries that found a free place, or new tickets for the place they held.
   */
  uint64_t entered_at_once;
  /**
   * Entries on a ticket, counted when the place is left.
   */
  uint64_t entered_by_ticket;
  /**
   * Entries of newcomers past the limit, while woken threads did not run yet.
   */
  uint64_t entered_by_lifo;
  /**
   * Entries after queueing.
   */
  uint64_t entered_from_queue;
  /**
   * Entries that asked nobody: ends of waits, and those past the limit.
   */
  uint64_t entered_by_force;
  /**
   * Exits that handed their place to a queued thread.
   */
  uint64_t handed_on;
  /**
   * Entries refused because the queue timeout or the call's own had passed.
   */
  uint64_t refused_by_timeout;
  /**
   * Entries refused because the queue was full.
   */
  uint64_t refused_queue_full;
  /**
   * Entries that were cancelled.
   */
  uint64_t cancelled;
  /**
   * Threads let in past the limit because nothing moved.
   */
  uint64_t stalls_broken;
  /**
   * Sessions that went before the first class because of their age.
   */
  uint64_t promoted;
  /**
   * The time that counters and times cover: since the scheduler was made, in nanoseconds.
   */
  uint64_t elapsed_ns;
  /**
   * From joining the queue to running inside, of every entry that queued.
   */
  flifo_times_t queued_times;
  /**
   * From being handed a place to running, of every hand-off.
   */
  flifo_times_t woken_to_running_times;
  /**
   * From entering to leaving, of one place in 64.
   */
  flifo_times_t inside_times;
  /**
   * The outermost waits, by `flifo_wait_kind_t`; the first `FLIFO_WAIT_KINDS` are used.
   */
  flifo_times_t wait_times[FLIFO_WAIT_KINDS_MAX];
  /**
   * Entries that queued while they owed others for long turns (`FLIFO_POLICY_QUANTUM`): others passed them, if any came.
   */
  uint64_t queued_owing;
  /**
   * Entries at once on a place that had waited for the session since it left (`anticipate`).
   */
  uint64_t anticipated;
  /**
   * Of `queued_times`, those of entries that went on then with a turn that had been cut short (`FLIFO_POLICY_QUANTUM`).
   */
  flifo_times_t resumed_times;
} flifo_snapshot_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Makes what ends this session's queueing from another thread, as KILL does. Make it where the session is made,
 * and keep it where the killer finds it. It may outlive the session, and the scheduler.
 *
 * `canceller`: where the handle is put.
 *
 * Rules:
 * `canceller` is null or good.
 */
flifo_status_t flifo_canceller_new(flifo_session_t session,
                                   flifo_canceller_t *canceller);

/**
 * Cancels: the session's `flifo_enter` returns `FLIFO_CANCELLED`, if it is queued now or when it would queue
 * next. A session that is inside stays. From any thread, at any time, also while the session is used or freed.
 */
flifo_status_t flifo_cancel(flifo_canceller_t canceller);

/**
 * The session is inside, and its thread was seen asleep: the next in the queue has its place until `flifo_take_back_place`, or
 * until the session leaves. The session itself is told nothing, and goes on when it wakes. From another thread than the session's.
 *
 * Returns `FLIFO_NOT_INSIDE`, and does nothing, if it holds no place that can be lent (`flifo_set_lendable`), or it is lent.
 */
flifo_status_t flifo_lend_place(flifo_canceller_t canceller);

/**
 * The session whose place is lent runs again: its place is its own, past the limit. From another thread than the session's.
 *
 * Returns `FLIFO_NOT_INSIDE`, and does nothing, if its place is not lent.
 */
flifo_status_t flifo_take_back_place(flifo_canceller_t canceller);

/**
 * Frees a canceller. What it has cancelled stays so.
 */
flifo_status_t flifo_canceller_free(flifo_canceller_t canceller);

/**
 * Fills a struct with the default settings: policy quantum, a limit of twice the processors.
 *
 * `config`: the struct. `struct_size`: give `sizeof (flifo_config_t)`, or `sizeof *config`.
 *
 * Rules:
 * `config` is null or has room for `struct_size` bytes.
 */
flifo_status_t flifo_config_init(flifo_config_t *config, size_t struct_size);

/**
 * The library's version as text, such as "0.1.0". Never null, never to be freed.
 */
const char *flifo_version(void);

/**
 * Whether the library that is loaded fits the header that the program was compiled with: call
 * `flifo_abi_check(FLIFO_ABI_VERSION)` once.
 *
 * Returns `FLIFO_INVALID` if it does not, and `flifo_last_error()` names both versions.
 */
flifo_status_t flifo_abi_check(uint32_t abi_version);

/**
 * The policy of that name ("quantum", "flifo", ..), as `flifo_policy_name` gives it.
 *
 * `name`: text that ends with NUL. `policy`: where the `flifo_policy_t` is put.
 *
 * Returns `FLIFO_INVALID` if there is no such policy; `flifo_last_error()` lists them.
 *
 * Rules:
 * The pointers are null or good.
 */
flifo_status_t flifo_policy_parse(const char *name, int *policy);

/**
 * The name of a `flifo_policy_t`, such as "quantum"; null if there is no such policy. Never to be freed.
 */
const char *flifo_policy_name(int policy);

/**
 * The name of a `flifo_wait_kind_t`, such as "row lock"; null if there is no such kind. Never to be freed.
 */
const char *flifo_wait_kind_name(int kind);

/**
 * Makes a scheduler.
 *
 * `config`: its settings; null: the defaults. `admission`: where the handle is put.
 *
 * Returns `FLIFO_INVALID` for impossible settings, and if its watchdog thread cannot be started.
 *
 * Rules:
 * The pointers are null or good, and `config->struct_size` is true.
 */
flifo_status_t flifo_admission_new(const flifo_config_t *config, flifo_admission_t *admission);

/**
 * Gives up the handle of a scheduler. Sessions of it that are alive go on as before; the scheduler ends with the
 * last of them.
 */
flifo_status_t flifo_admission_free(flifo_admission_t admission);

/**
 * Changes the settings at run time, all at once. Begin with what `flifo_admission_config` gives.
 *
 * A higher limit lets as many in as now fit; a lower one takes effect as threads leave. When the policy changes,
 * or the limit is lifted, everybody in the queue asks again. Settings beyond the end of an older program's
 * struct stay as they are. If the limit finds itself, `thread_concurrency` and the bounds are taken anew only when one
 * of them is another than before.
 *
 * Returns `FLIFO_INVALID` for impossible settings, and if the watchdog thread cannot be started.
 *
 * Rules:
 * `config` is null or good, and `config->struct_size` is true.
 */
flifo_status_t flifo_reconfigure(flifo_admission_t admission,
                                 const flifo_config_t *config);

/**
 * Changes the limit alone: threads inside at a time, at most 1023; 0: no limit.
 *
 * If the limit finds itself (`auto_ceiling`), the search begins again from this one, brought between the bounds: 0 is
 * the lower one. Also if it is the limit that was told last.
 */
flifo_status_t flifo_set_thread_concurrency(flifo_admission_t admission,
                                            uint32_t thread_concurrency);

/**
 * All that are inside were seen asleep: up to `more` of those who queue are let in past the limit, unless some are on their way
 * already. See `flifo_lend_place`.
 */
flifo_status_t flifo_admit_past_limit(flifo_admission_t admission,
                                      uint32_t more);

/**
 * Fills a struct with the settings as they are now.
 *
 * `config`: the struct. `struct_size`: give `sizeof (flifo_config_t)`, or `sizeof *config`.
 *
 * Rules:
 * `config` is null or has room for `struct_size` bytes.
 */
flifo_status_t flifo_admission_config(flifo_admission_t admission,
                                      flifo_config_t *config,
                                      size_t struct_size);

/**
 * Does what depends on time alone, for a scheduler without a watchdog: call it every few milliseconds, from any
 * one thread.
 */
flifo_status_t flifo_step(flifo_admission_t admission);

/**
 * Makes a tenant. While sessions of several tenants are in the queue, places go to them by weight; sessions
 * without a tenant share one of weight 1.
 *
 * `weight`: from 0.001 to 1000. `tenant`: where the handle is put.
 *
 * Returns `FLIFO_INVALID` for an impossible weight, and for more than 63 tenants.
 *
 * Rules:
 * `tenant` is null or good.
 */
flifo_status_t flifo_tenant_new(flifo_admission_t admission,
                                double weight,
                                flifo_tenant_t *tenant);

/**
 * Makes a session: one for each connection. It may move between threads, but serves one at a time; a call while
 * another thread is in one returns `FLIFO_IN_USE`.
 *
 * A session that stays on the thread that enters first is the fastest. One that moves costs some nanoseconds
 * more with every call from then on.
 *
 * `session`: where the handle is put.
 *
 * Rules:
 * `session` is null or good.
 */
flifo_status_t flifo_session_new(flifo_admission_t admission,
                                 flifo_session_t *session);

/**
 * Ends a session. If it is inside it leaves, and its place goes to the next.
 *
 * Returns `FLIFO_IN_USE`, and does nothing, while another thread is in a call on it, such as queued in
 * `flifo_enter`: cancel it, and free it when that call is back.
 */
flifo_status_t flifo_session_free(flifo_session_t session);

/**
 * Enters: takes a ticket if there is one left, else asks for a place, and queues until it has one. Call it for
 * every engine entry: at the beginning of a statement, and for each row.
 *
 * Within a wait that gave up the place it does nothing: the place comes back when the wait ends.
 *
 * Returns `FLIFO_TIMEOUT`, `FLIFO_QUEUE_FULL` or `FLIFO_CANCELLED` if it is refused; it is outside then, also
 * if it was inside before and had used its tickets.
 */
flifo_status_t flifo_enter(flifo_session_t session);

/**
 * As `flifo_enter`, but waits in the queue no longer than `timeout_ns` nanoseconds; 0 does not wait.
 *
 * Returns `FLIFO_TIMEOUT` then.
 */
flifo_status_t flifo_enter_until(flifo_session_t session,
                                 uint64_t timeout_ns);

/**
 * Enters if that is possible at once.
 *
 * Returns `FLIFO_NO_PLACE` if it is not: it is outside then, also if it was inside before and had used its tickets
 * while others wait. Within a wait that gave up the place it does nothing, and returns the same: the place comes back
 * when the wait ends.
 */
flifo_status_t flifo_try_enter(flifo_session_t session);

/**
 * As `flifo_try_enter`, but as long as nobody queues also past the limit, while fewer than `places` are held: for one
 * that needs nothing that those inside hold, such as a short read. Exits repay the overshoot before the next of the queue is
 * let in.
 */
flifo_status_t flifo_try_enter_below(flifo_session_t session,
                                     uint32_t places);

/**
 * Enters whatever the limit says; exits repay the overshoot. For a session that those inside wait for, such as
 * the holder of a row lock: if it queued behind them, nobody would ever leave.
 */
flifo_status_t flifo_enter_past_limit(flifo_session_t session);

/**
 * Leaves: hands the place to the head of the queue, or gives it back. Call it at the end of a statement, before
 * its reply is sent. Within a wait it gives up what the wait would bring back.
 *
 * Returns `FLIFO_NOT_INSIDE`, and does nothing, without an enter before.
 */
flifo_status_t flifo_exit(flifo_session_t session);

/**
 * As `flifo_exit`, for a session that will not be back at once: whatever it might keep of its turn goes to the next in
 * the queue. For one that is about to wait for others, and declares no wait.
 *
 * Returns `FLIFO_NOT_INSIDE` without an enter before; if a place waits for the session then (`anticipate`), that goes to the next all the same.
 */
flifo_status_t flifo_exit_for_good(flifo_session_t session);

/**
 * Whether a session is inside: `FLIFO_OK` if so, else `FLIFO_NOT_INSIDE`.
 */
flifo_status_t flifo_is_inside(flifo_session_t session);

/**
 * Begins a wait: gives up the place, if the settings say so for this kind. Waits nest; the outermost one that
 * gives up the place takes it back. Outside it only counts.
 *
 * `kind`: a `flifo_wait_kind_t`.
 */
flifo_status_t flifo_wait_begin(flifo_session_t session,
                                int kind);

/**
 * The wait for a row lock that goes on is a long one: the session stands behind others that wait for the same
 * lock, or its holder takes its time. It does not count for lock_waiters_max any more.
 *
 * Returns `FLIFO_NO_WAIT`, and does nothing, without a `flifo_wait_begin` before.
 */
flifo_status_t flifo_wait_is_long(flifo_session_t session);

/**
 * Ends a wait. Never blocks, since the caller may hold latches: if the wait gave up the place, this forces its
 * way back in past the limit, with one ticket. Exits repay the overshoot.
 *
 * `kind`: as `flifo_wait_begin` had it.
 *
 * Returns `FLIFO_NO_WAIT`, and does nothing, without a `flifo_wait_begin` before.
 */
flifo_status_t flifo_wait_end(flifo_session_t session,
                              int kind);

/**
 * As `flifo_wait_end`, but queues when the limit is reached, before those of the normal class and behind holders
 * of locks that came before. Only where the caller holds nothing that others may wait for: no latch, no mutex.
 *
 * Returns `FLIFO_TIMEOUT`, `FLIFO_QUEUE_FULL` or `FLIFO_CANCELLED` if it is refused: the wait is over then, and
 * the session is outside.
 */
flifo_status_t flifo_wait_end_may_queue(flifo_session_t session,
                                        int kind);

/**
 * Says whether the session holds locks for which others may wait. It counts from its next entry, and at its next
 * exit: one that holds locks goes on with its turn, others make room for those who do.
 *
 * `class_`: a `flifo_class_t`.
 */
flifo_status_t flifo_set_class(flifo_session_t session,
                               int class_);

/**
 * Says whether the session is within a transaction, one that has begun and is not over. Under `FLIFO_POLICY_QUANTUM` its turn
 * then goes on until the transaction is over, for up to eight quanta: one that is cut in two waits for two
 * turns. Whoever never ends one has up to eight times the time of others; if its turns are timed, and it uses the processors for more than four quanta of one, it owes that.
 *
 * `in_transaction`: 0 if not.
 */
flifo_status_t flifo_set_in_transaction(flifo_session_t session,
                                        int in_transaction);

/**
 * Says whether the session's place may be lent while its thread sleeps inside (`flifo_lend_place`); at first it may not.
 *
 * `lendable`: 0 if not.
 */
flifo_status_t flifo_set_lendable(flifo_session_t session,
                                  int lendable);

/**
 * Says whose share the session uses, from its next entry on.
 *
 * `tenant`: one of the same scheduler, or all zeros for the default one.
 */
flifo_status_t flifo_set_tenant(flifo_session_t session, flifo_tenant_t tenant);

/**
 * Takes back a cancellation that found nothing to cancel. Call it where a statement begins, so that one that
 * came too late for the statement before does not hit this one.
 */
flifo_status_t flifo_forget_cancel(flifo_session_t session);

/**
 * Fills a struct with counters, with how many are inside and queued now, and with times.
 *
 * It costs some ten microseconds and disturbs nobody.
 *
 * `snapshot`: the struct. `struct_size`: give `sizeof (flifo_snapshot_t)`, or `sizeof *snapshot`.
 *
 * Rules:
 * `snapshot` is null or has room for `struct_size` bytes.
 */
flifo_status_t flifo_snapshot(flifo_admission_t admission,
                              flifo_snapshot_t *snapshot,
                              size_t struct_size);

/**
 * Writes one line of text, `key=value` pairs for a log, that says what a scheduler did and is doing. Times are in
 * microseconds. Keys keep their meaning; a key whose value is not known is left out.
 *
 * `buffer`: where it is put, always ended by NUL; may be null if `size` is 0. `size`: the bytes there; a longer
 * text is cut. `length`: where the length of the whole text is put, without its NUL; may be null.
 *
 * Rules:
 * `buffer` has room for `size` bytes; `length` is null or good.
 */
flifo_status_t flifo_status_text(flifo_admission_t admission,
                                 char *buffer,
                                 size_t size,
                                 size_t *length);

/**
 * What exactly was wrong with the last call of this thread that returned `FLIFO_INVALID`, `FLIFO_TOO_MANY` or
 * `FLIFO_PANIC`; empty if there was none. Never null. The text is good until this thread's next such call;
 * copy it to keep it.
 */
const char *flifo_last_error(void);

/**
 * One line that says what a status means; for a number that is no status, that. Never null, never to be freed.
 *
 * `status`: a `flifo_status_t`.
 */
const char *flifo_error_message(int status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FLIFO_H */
