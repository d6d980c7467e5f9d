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
#define FLIFO_ABI_VERSION 2

/**
 * How many kinds of wait there are.
 */
#define FLIFO_WAIT_KINDS 7

/**
 * The `wait_mask` in which every kind of wait gives up the place; kind `k` has the bit `1 << k`.
 */
#define FLIFO_WAIT_MASK_ALL 127

/**
 * Number of elements of `wait_times`; leaves room for kinds of wait that are added later.
 */
#define FLIFO_WAIT_KINDS_MAX 16

/**
 * What came of a call. Everything but `FLIFO_OK` means that the call did nothing, except where it says so, and that
 * an entry that finds no place (`FLIFO_TIMEOUT` to `FLIFO_NO_SLOT`) leaves the session outside: one that was
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
  FLIFO_NO_SLOT = 4,
  /**
   * The session is not inside: an exit without an enter, or `flifo_is_running` says no.
   */
  FLIFO_NOT_RUNNING = 5,
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
 * Which thread enters when the limit is reached.
 */
typedef enum {
  /**
   * No limit: every thread enters at once.
   */
  FLIFO_POLICY_NONE = 0,
  /**
   * Strict order: an exit hands its slot off to the head of the queue, and newcomers queue behind.
   */
  FLIFO_POLICY_FIFO = 1,
  /**
   * FIFO hand-off, but a newcomer enters at once while woken threads are still pending (published in 2009).
   */
  FLIFO_POLICY_FLIFO = 2,
  /**
   * Round robin with a time slice (`quantum_ns`), FLIFO for newcomers. The default.
   *
   * From a quantum of 1 ms on, a session that used far more CPU time than others lets them pass.
   */
  FLIFO_POLICY_QUANTUM = 3,
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
 * The settings of a scheduler. Fill it with `flifo_config_init`, then change what you need.
 *
 * Times are in nanoseconds. The struct may grow at its end. `struct_size` is the size that the program was compiled
 * with: a newer library reads an older struct and keeps the settings it lacks; an older library accepts a newer
 * struct if the fields it does not know are zero.
 */
typedef struct {
  /**
   * `sizeof (flifo_config_t)`; set by `flifo_config_init`.
   */
  size_t struct_size;
  /**
   * Which thread enters when the limit is reached: a `flifo_policy_t`. Default: `FLIFO_POLICY_QUANTUM`.
   */
  int32_t policy;
  /**
   * Maximum number of threads running at once, at most 1023; 0 = unlimited. Default: twice the CPUs.
   *
   * With `auto_ceiling`: the limit to begin with, brought between `auto_floor` and `auto_ceiling`.
   */
  uint32_t thread_concurrency;
  /**
   * The lowest limit that the adaptive limit tries, at least 1; 0 if `auto_ceiling` is 0.
   */
  uint32_t auto_floor;
  /**
   * The highest limit that the adaptive limit tries, at most 1023; 0 = the limit is not adaptive. Default: 0.
   */
  uint32_t auto_ceiling;
  /**
   * Engine entries on one slot before the session must acquire it anew; at least 1. Default: 5000.
   */
  uint32_t concurrency_tickets;
  /**
   * The waits that release the slot: bit `1 << kind` for each `flifo_wait_kind_t`. Default: all.
   */
  uint32_t wait_mask;
  /**
   * Maximum number of disk waits that release their slots at once; a further one keeps its slot. 0 = unlimited.
   * Default: 64.
   */
  uint32_t io_depth;
  /**
   * Number of sessions in row-lock waits from which sessions of the normal class get only half as many slots as
   * CPUs, and at least one; 0 = unlimited. Default: half the CPUs.
   *
   * Waits marked with `flifo_mark_wait_long` do not count.
   */
  uint32_t lock_waiters_max;
  /**
   * Maximum number of sessions in the queue; a further one is refused with `FLIFO_QUEUE_FULL`. 0 = unlimited.
   * Default: 0.
   */
  uint32_t queue_limit;
  /**
   * 1 reserves a free slot for a session that is expected back at once, while at least eight sessions queue for each
   * slot (`FLIFO_POLICY_QUANTUM`). Default: 0.
   *
   * Favours clients on the server's own machine; clients that think lose 10 to 20%.
   */
  uint32_t reserve_slots;
  /**
   * 1 gives the scheduler a thread of its own for what depends on time. Default: 1.
   *
   * With 0, call `flifo_step` every few milliseconds. The thread stays until the scheduler ends, also if this
   * becomes 0.
   */
  uint32_t watchdog;
  /**
   * Must be 0.
   */
  uint32_t unused;
  /**
   * Maximum time in the queue; then the session is refused with `FLIFO_TIMEOUT`. 0 = no timeout. Default: 0.
   */
  uint64_t queue_timeout_ns;
  /**
   * Time after which the watchdog releases the slot of a session that has kept it while others queue. 0 = never.
   * Default: 100 ms.
   *
   * The session goes on without a slot. When no session has entered or exited for that time, one more waiter is
   * admitted. For undeclared waits and long statements.
   */
  uint64_t stall_limit_ns;
  /**
   * Time in the queue after which a session of the normal class is promoted past the first class, with every
   * fourth slot at most. Default: 50 ms.
   */
  uint64_t promote_after_ns;
  /**
   * The time slice: how long a session may keep coming back before it queues at the tail
   * (`FLIFO_POLICY_QUANTUM`); more than 0. Default: 50 us.
   *
   * Longer: fewer context switches, longer waits. Waits that release the slot and queueing do not count.
   */
  uint64_t quantum_ns;
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
 * Times of one kind since the scheduler was made, in nanoseconds, each exact to 2%; all 0 if there were none.
 *
 * A time above 2^42 ns (73 minutes) counts as 2^42 ns.
 */
typedef struct {
  /**
   * Number of measured times.
   */
  uint64_t count;
  /**
   * The mean.
   */
  uint64_t mean_ns;
  /**
   * The median.
   */
  uint64_t p50_ns;
  /**
   * The 95th percentile.
   */
  uint64_t p95_ns;
  /**
   * The 99th percentile.
   */
  uint64_t p99_ns;
  /**
   * The 99.9th percentile.
   */
  uint64_t p999_ns;
  /**
   * The longest; at most 2^42 ns.
   */
  uint64_t max_ns;
} flifo_times_t;

/**
 * What a scheduler did and what it is doing. Counters and times are cumulative since it was made.
 *
 * The struct may grow at its end; the caller passes its size to `flifo_snapshot`.
 */
typedef struct {
  /**
   * The size that the caller passed to `flifo_snapshot`.
   */
  size_t struct_size;
  /**
   * The policy now: a `flifo_policy_t`.
   */
  int32_t policy;
  /**
   * The limit now; 0 = unlimited.
   */
  uint32_t thread_concurrency;
  /**
   * Slots out now, to running and pending threads, and reserved ones.
   */
  uint32_t running;
  /**
   * Pending threads now: handed a slot, not running yet.
   */
  uint32_t pending;
  /**
   * Threads queued now.
   */
  uint32_t queued;
  /**
   * Sessions now in row-lock waits that released their slots, except those whose wait is marked long.
   */
  uint32_t lock_waiters;
  /**
   * Sessions now in disk waits that released their slots.
   */
  uint32_t disk_waits;
  /**
   * The most slots out so far. Unlike `running` it counts free slots cached on CPUs.
   */
  uint32_t running_max;
  /**
   * The highest `pending` so far.
   */
  uint32_t pending_max;
  /**
   * The highest `queued` so far.
   */
  uint32_t queued_max;
  /**
   * Entries that found a free slot, or took new tickets for the slot they held.
   */
  uint64_t admitted_at_once;
  /**
   * Entries on a ticket. Counted when the slot is released or its tickets are renewed.
   */
  uint64_t admitted_by_ticket;
  /**
   * Entries of newcomers above the limit, while woken threads were pending.
   */
  uint64_t admitted_by_barging;
  /**
   * Entries after queueing.
   */
  uint64_t admitted_from_queue;
  /**
   * Forced entries: ends of waits, and `flifo_enter_forced`.
   */
  uint64_t admitted_by_force;
  /**
   * Exits that handed their slot off to a queued thread.
   */
  uint64_t handed_off;
  /**
   * Entries on a slot that was reserved for the session (`reserve_slots`).
   */
  uint64_t reserved;
  /**
   * Entries refused because the queue timeout or the call's own timeout had passed.
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
   * Threads admitted above the limit because no session entered or exited for the stall limit.
   */
  uint64_t stalls_broken;
  /**
   * Slots reclaimed from sessions that ran for the stall limit while others queued.
   */
  uint64_t slots_reclaimed;
  /**
   * Sessions that went before the first class because of their age.
   */
  uint64_t promoted;
  /**
   * Entries that queued with a deficit (`FLIFO_POLICY_QUANTUM`): others passed them, if any came.
   */
  uint64_t queued_with_deficit;
  /**
   * The time that counters and times cover: since the scheduler was made, in nanoseconds.
   */
  uint64_t elapsed_ns;
  /**
   * From joining the queue to running, of every entry that queued.
   */
  flifo_times_t queued_times;
  /**
   * The part of `queued_times` that belongs to entries that resumed a time slice (`FLIFO_POLICY_QUANTUM`).
   */
  flifo_times_t resumed_times;
  /**
   * From being handed a slot to running, of every hand-off.
   */
  flifo_times_t woken_to_running_times;
  /**
   * From entering to exiting, of one stay in 64.
   */
  flifo_times_t running_times;
  /**
   * The outermost waits, by `flifo_wait_kind_t`; the first `FLIFO_WAIT_KINDS` elements are used.
   */
  flifo_times_t wait_times[FLIFO_WAIT_KINDS_MAX];
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
 * Frees a canceller. What it has cancelled stays so.
 */
flifo_status_t flifo_canceller_free(flifo_canceller_t canceller);

/**
 * Fills a struct with the default settings: policy quantum, a limit of twice the CPUs.
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
 * Returns `FLIFO_NO_SLOT` if it is not: it is outside then, also if it was inside before and had used its tickets
 * while others wait. Within a wait that gave up the place it does nothing, and returns the same: the place comes back
 * when the wait ends.
 */
flifo_status_t flifo_try_enter(flifo_session_t session);

/**
 * Enters whatever the limit says; exits repay the overshoot. For a session that those inside wait for, such as
 * the holder of a row lock: if it queued behind them, nobody would ever leave.
 */
flifo_status_t flifo_enter_forced(flifo_session_t session);

/**
 * Leaves: hands the place to the head of the queue, or gives it back. Call it at the end of a statement, before
 * its reply is sent. Within a wait it gives up what the wait would bring back.
 *
 * Returns `FLIFO_NOT_RUNNING`, and does nothing, without an enter before.
 */
flifo_status_t flifo_exit(flifo_session_t session);

/**
 * As `flifo_exit`, for a session that will not be back at once: whatever it might keep of its turn goes to the next in
 * the queue. For one that is about to wait for others, and declares no wait.
 *
 * Returns `FLIFO_NOT_RUNNING` without an enter before; if a place waits for the session then (`anticipate`), that goes to the next all the same.
 */
flifo_status_t flifo_exit_ending_slice(flifo_session_t session);

/**
 * Whether a session is inside: `FLIFO_OK` if so, else `FLIFO_NOT_RUNNING`.
 */
flifo_status_t flifo_is_running(flifo_session_t session);

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
flifo_status_t flifo_mark_wait_long(flifo_session_t session);

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
 * Takes back a cancellation that found nothing to cancel. Call it where a statement begins, so that one that
 * came too late for the statement before does not hit this one.
 */
flifo_status_t flifo_forget_cancel(flifo_session_t session);

/**
 * Fills a struct with counters, times, and the numbers of running, pending and queued threads.
 *
 * Takes some ten microseconds, and blocks no entry and no exit.
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
