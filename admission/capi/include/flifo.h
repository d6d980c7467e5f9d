/*
 * libflifo: an admission scheduler. It keeps a server at its peak throughput, however many threads pile up.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * At most `thread_concurrency` threads run at once. A thread that enters acquires a slot and tickets: the engine
 * entries it may make before it must acquire a slot anew. A thread that exits (its statement ends, or it waits for a
 * lock or a disk) hands its slot off to the head of a queue.
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
 *     flifo_enter(session);                         for each statement and each row: queues if necessary; if it is
 *                                                   refused, the session is not running and cannot go on
 *     flifo_wait_begin(session, FLIFO_WAIT_DISK);   releases the slot for the next in the queue
 *     flifo_wait_end(session, FLIFO_WAIT_DISK);     acquires a slot at once
 *     flifo_exit(session);                          before the reply is sent
 *
 *     flifo_session_free(session);
 *     flifo_admission_free(admission);
 *
 * RULES
 *
 * - Every function returns a flifo_status_t, except those that return text. A call with a mistake returns an error and
 *   does nothing: an exit without an entry, a freed handle, a null pointer, a session in use by another thread. Not
 *   detected: a pointer that is neither null nor valid, and text without its NUL.
 * - Handles are numbers in a struct; pass and keep them by value. A freed handle never becomes valid again.
 * - Any thread may call functions on an admission or a canceller at any time. A session may move between threads, but
 *   serves one at a time; to hand it over, finish the call first.
 * - No function may be called from a signal handler. A thread must not be cancelled, nor jump away, in a call.
 * - After fork the child must not use the parent's schedulers and sessions. It can make new ones only if no other
 *   thread was in a call during the fork, since that call's locks stay locked in the child: fork earlier, or exec.
 * - No call holds a lock of the library while it sleeps. Only flifo_enter and
 *   flifo_enter_until sleep.
 * - dlclose leaves the shared library mapped. If you link the static library into a module that is unloaded, link that
 *   module with -z nodelete: a scheduler's watchdog thread may still run for a moment.
 *
 * IN A SERVER'S PLUGIN
 *
 * What a plugin of a database server, such as MariaDB, needs:
 *
 * - One session for each connection, in a map of the plugin's own from the connection to the handle.
 *   flifo_session_new at its first statement, flifo_enter where a statement begins, flifo_exit where it ends,
 *   flifo_session_free at disconnect. flifo_exit and flifo_session_free may be called twice, or without the first two:
 *   they return a status and do nothing.
 * - KILL: make a canceller with each session. A thread of the plugin that observes kills calls flifo_cancel; the
 *   statement's flifo_enter returns FLIFO_CANCELLED if it queues. Call flifo_forget_cancel where a statement begins, so
 *   that a late KILL QUERY does not end the next statement.
 * - The server's wait callbacks: flifo_wait_begin and flifo_wait_end, with the kind that the server passes. End waits
 *   with flifo_wait_end wherever the server may hold a latch, a mutex or a row lock, since it never blocks.
 * - A transaction that holds locks: flifo_set_class(session, FLIFO_CLASS_FIRST) from its first lock on,
 *   FLIFO_CLASS_NORMAL after commit or rollback. With lock_waiters_max this keeps the queue of a hot row short.
 * - Every transaction: flifo_set_in_transaction where it begins and where it ends, so that its time slice lasts until
 *   then.
 * - System variables: flifo_admission_config, change a field, flifo_reconfigure; flifo_policy_parse and
 *   flifo_policy_name for the policy. If a value is refused, flifo_last_error() returns the text for the user.
 * - Status variables: flifo_snapshot once for each SHOW STATUS, into a struct on the stack; flifo_status_text for a
 *   one-line status.
 * - Licence: MIT or Apache-2.0, as you choose; for a GPL-2.0-only work choose MIT.
 */


#ifndef FLIFO_H
#define FLIFO_H

/* Generated from admission/capi/src by `make header`. Do not edit. */

#include <stddef.h>
#include <stdint.h>

/**
 * The version of the binary interface. It is raised when a program compiled with an older header would fail with the
 * newer library.
 *
 * Added functions, added statuses and structs that grew do not raise it.
 */
#define FLIFO_ABI_VERSION 3

/**
 * The number of kinds of wait.
 */
#define FLIFO_WAIT_KINDS 7

/**
 * The `wait_mask` with which every kind of wait releases the slot; kind `k` has the bit `1 << k`.
 */
#define FLIFO_WAIT_MASK_ALL 127

/**
 * Number of elements of `wait_times`; leaves room for kinds of wait that are added later.
 */
#define FLIFO_WAIT_KINDS_MAX 16

/**
 * The result of a call. After any status except `FLIFO_OK` the call has done nothing, except where a function's text
 * states otherwise.
 *
 * An entry that gets no slot (`FLIFO_TIMEOUT` to `FLIFO_NO_SLOT`) leaves the session not running: a session that was
 * running and had used its tickets has lost its slot. A program acts upon the statuses up to `FLIFO_NO_WAIT`; the later
 * ones report a mistake in the program, or a limit or a defect of the library.
 */
typedef enum {
  /**
   * Success; of a question: yes.
   */
  FLIFO_OK = 0,
  /**
   * Refused: no slot became free within `queue_timeout_ns` or the call's own timeout.
   */
  FLIFO_TIMEOUT = 1,
  /**
   * Refused: no slot is free, and `queue_limit` sessions queue already.
   */
  FLIFO_QUEUE_FULL = 2,
  /**
   * Refused: `flifo_cancel` was called. The cancellation is used up.
   */
  FLIFO_CANCELLED = 3,
  /**
   * `flifo_try_enter` found no free slot. The session is not running.
   */
  FLIFO_NO_SLOT = 4,
  /**
   * The session is not running: an exit without an entry; of `flifo_is_running`: no.
   */
  FLIFO_NOT_RUNNING = 5,
  /**
   * No wait has begun.
   */
  FLIFO_NO_WAIT = 6,
  /**
   * An argument is not valid; `flifo_last_error()` names it and the allowed values.
   */
  FLIFO_INVALID = 7,
  /**
   * The handle is not a live handle of this kind: freed, freed twice, or never made.
   */
  FLIFO_DEAD_HANDLE = 8,
  /**
   * Another thread is in a call on this session, perhaps queued in it. A session serves one thread at a time.
   */
  FLIFO_IN_USE = 9,
  /**
   * The maximum number of sessions, schedulers or cancellers is reached; `flifo_last_error()` gives it.
   */
  FLIFO_TOO_MANY = 10,
  /**
   * A defect of this library was caught; `flifo_last_error()` has its text. If the call was on a session, that
   * session has exited and its handle is dead.
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
 * What an adaptive limit does now.
 */
typedef enum {
  /**
   * The limit is not adaptive.
   */
  FLIFO_AUTO_OFF = 0,
  /**
   * Few threads want to run: no limit.
   */
  FLIFO_AUTO_CALM = 1,
  /**
   * The limit and no limit are measured in alternating blocks.
   */
  FLIFO_AUTO_COMPARING = 2,
  /**
   * The limit does more work, and is in force.
   */
  FLIFO_AUTO_LIMITED = 3,
  /**
   * No limit does as much work, and none is in force.
   */
  FLIFO_AUTO_OPEN = 4,
} flifo_auto_state_t;

/**
 * What a running thread waits for.
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
 * The order in the queue.
 */
typedef enum {
  /**
   * All other sessions. The class of a new session.
   */
  FLIFO_CLASS_NORMAL = 0,
  /**
   * A session that holds locks for which others may wait: it goes before the others, so that the locks are released
   * soon.
   */
  FLIFO_CLASS_FIRST = 1,
} flifo_class_t;

/**
 * A handle of a session, which serves one connection. All zero = none. See `flifo_session_new`.
 */
typedef struct {
  /**
   * 0 = none.
   */
  uint64_t id;
} flifo_session_t;

/**
 * A handle of a canceller, which ends one session's queueing from another thread. All zero = none. See
 * `flifo_canceller_new`.
 */
typedef struct {
  /**
   * 0 = none.
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
   * With `adaptive`, at least 1.
   */
  uint32_t thread_concurrency;
  /**
   * 1 applies the limit only while it pays: where many threads want to run, and a comparison with no limit shows a
   * gain. Default: 0.
   */
  uint32_t adaptive;
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
   * Maximum number of sessions in the queue; a further one is refused with `FLIFO_QUEUE_FULL`, unless it is out of tickets.
   * 0 = unlimited. Default: 0.
   */
  uint32_t queue_limit;
  /**
   * 1 reserves a free slot for a session that is expected back at once, while at least eight sessions queue for each
   * slot (`FLIFO_POLICY_QUANTUM`). Default: 0.
   *
   * Favours clients on the server's own machine, and slows clients that think.
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
   * Maximum time in the queue, twice as long for a session out of tickets; then it is refused with `FLIFO_TIMEOUT`.
   * 0 = no timeout. Default: 0.
   */
  uint64_t queue_timeout_ns;
  /**
   * Time that a session may run while others queue; then its slot is reclaimed. 0 = no limit. Default: 100 ms.
   *
   * The session goes on without a slot, and its exit releases none. When no session has entered or exited for that
   * time, one more waiter is admitted. For undeclared waits and long statements.
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
 * A handle of a scheduler, shared by all sessions that compete for the same CPUs. All zero = none.
 *
 * An opaque number, not an address: the handle of a freed scheduler is never valid again. See `flifo_admission_new`.
 */
typedef struct {
  /**
   * 0 = none.
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
 * Makes a canceller: it ends the session's queueing from another thread, as KILL does.
 *
 * Make it where the session is made, and keep it where the killer finds it. It may outlive the session and the
 * scheduler.
 *
 * `canceller`: receives the handle.
 *
 * Returns `FLIFO_TOO_MANY` if there are 2^20 cancellers.
 *
 * Rules:
 * `canceller` is null or writable.
 */
flifo_status_t flifo_canceller_new(flifo_session_t session,
                                   flifo_canceller_t *canceller);

/**
 * Cancels: the session's `flifo_enter` returns `FLIFO_CANCELLED` if it is queued now, or when it would queue next.
 *
 * A running session goes on. Call it from any thread at any time, also while the session is in use or is freed.
 */
flifo_status_t flifo_cancel(flifo_canceller_t canceller);

/**
 * Frees a canceller. A cancellation that it has made stays in effect.
 */
flifo_status_t flifo_canceller_free(flifo_canceller_t canceller);

/**
 * Fills a struct with the default settings: policy quantum, a limit of twice the CPUs.
 *
 * `config`: the struct. `struct_size`: `sizeof (flifo_config_t)`.
 *
 * Rules:
 * `config` is null or has room for `struct_size` bytes.
 */
flifo_status_t flifo_config_init(flifo_config_t *config, size_t struct_size);

/**
 * Returns the library's version as text, such as "0.1.0". Never null, never freed.
 */
const char *flifo_version(void);

/**
 * Checks that the loaded library fits the header that the program was compiled with.
 *
 * Call `flifo_abi_check(FLIFO_ABI_VERSION)` once.
 *
 * Returns `FLIFO_INVALID` if it does not fit; `flifo_last_error()` names both versions.
 */
flifo_status_t flifo_abi_check(uint32_t abi_version);

/**
 * Parses the name of a policy, as `flifo_policy_name` returns it.
 *
 * `name`: text that ends with NUL. `policy`: receives the `flifo_policy_t`.
 *
 * Returns `FLIFO_INVALID` if there is no such policy; `flifo_last_error()` lists the names.
 *
 * Rules:
 * `name` is null or ends with NUL; `policy` is null or writable.
 */
flifo_status_t flifo_policy_parse(const char *name, int *policy);

/**
 * Returns the name of a `flifo_policy_t`, such as "quantum"; null if there is no such policy. Never freed.
 */
const char *flifo_policy_name(int policy);

/**
 * Returns the name of a `flifo_wait_kind_t`, such as "row lock"; null if there is no such kind. Never freed.
 */
const char *flifo_wait_kind_name(int kind);

/**
 * Makes a scheduler.
 *
 * `config`: its settings; null = the defaults. `admission`: receives the handle.
 *
 * Returns `FLIFO_INVALID` for settings that are not valid, and if its watchdog thread cannot be started;
 * `FLIFO_TOO_MANY` if there are 2^20 schedulers.
 *
 * Rules:
 * `config` is null or points to `config->struct_size` bytes; `admission` is null or writable.
 */
flifo_status_t flifo_admission_new(const flifo_config_t *config,
                                   flifo_admission_t *admission);

/**
 * Frees the handle of a scheduler. Its live sessions go on as before; the scheduler ends with the last of them.
 */
flifo_status_t flifo_admission_free(flifo_admission_t admission);

/**
 * Changes all settings at run time. Begin with the struct from `flifo_admission_config`.
 *
 * A higher limit admits as many as now fit; a lower limit takes effect as threads exit. When the policy changes, or the
 * limit becomes 0, every thread in the queue tries again. Settings beyond the end of an older program's struct remain.
 * With `adaptive`, the controller begins again only if `thread_concurrency` differs from before.
 *
 * Returns `FLIFO_INVALID` for settings that are not valid, and if the watchdog thread cannot be started.
 *
 * Rules:
 * `config` is null or points to `config->struct_size` bytes.
 */
flifo_status_t flifo_reconfigure(flifo_admission_t admission,
                                 const flifo_config_t *config);

/**
 * Changes the limit alone.
 *
 * With `adaptive` the controller begins again with this limit, also if it is the limit set last.
 *
 * `thread_concurrency`: at most 1023; 0 = unlimited.
 *
 * Returns `FLIFO_INVALID` for a higher limit.
 */
flifo_status_t flifo_set_thread_concurrency(flifo_admission_t admission,
                                            uint32_t thread_concurrency);

/**
 * Reports what an adaptive limit does now.
 *
 * `state`: receives a `flifo_auto_state_t`. `is_dormant`: receives 1 while no limit is in force and none is about to be
 * measured, so that entries need no more than to be counted (`flifo_enter_uncounted`), else 0. Either may be null.
 *
 * Rules:
 * `state` and `is_dormant` are null or writable.
 */
flifo_status_t flifo_auto_state(flifo_admission_t admission,
                                int *state,
                                int *is_dormant);

/**
 * Fills a struct with the current settings.
 *
 * With `adaptive`, `flifo_snapshot` returns the limit in force now, and `flifo_auto_state` whether it is.
 *
 * `config`: the struct. `struct_size`: `sizeof (flifo_config_t)`.
 *
 * Rules:
 * `config` is null or has room for `struct_size` bytes.
 */
flifo_status_t flifo_admission_config(flifo_admission_t admission,
                                      flifo_config_t *config,
                                      size_t struct_size);

/**
 * Does the work that depends on time, for a scheduler without a watchdog. Call it every few milliseconds.
 *
 * It reclaims slots and breaks stalls (`stall_limit_ns`), releases reserved slots whose time is over, and adapts the
 * limit. Call it from one thread.
 */
flifo_status_t flifo_step(flifo_admission_t admission);

/**
 * Makes a session. Make one for each connection.
 *
 * A session may move between threads, but serves one at a time: a call while another thread is in a call on it
 * returns `FLIFO_IN_USE`. A session that stays on the thread that enters first is the fastest; each call on a
 * session that has moved costs some nanoseconds more.
 *
 * `session`: receives the handle.
 *
 * Returns `FLIFO_TOO_MANY` if the scheduler has 130,815 sessions.
 *
 * Rules:
 * `session` is null or writable.
 */
flifo_status_t flifo_session_new(flifo_admission_t admission,
                                 flifo_session_t *session);

/**
 * Frees a session. A running session exits first.
 *
 * Returns `FLIFO_IN_USE`, and does nothing, while another thread is in a call on it, such as queued in
 * `flifo_enter`: cancel that call, and free the session after it has returned.
 */
flifo_status_t flifo_session_free(flifo_session_t session);

/**
 * Enters: takes a ticket if there is one left, else acquires a slot, and queues until it has one.
 *
 * Call it for every engine entry: at the beginning of a statement and for each row. While a wait has released the
 * slot it does nothing; the end of the wait acquires the slot again.
 *
 * Returns `FLIFO_TIMEOUT`, `FLIFO_QUEUE_FULL` or `FLIFO_CANCELLED` if it is refused. The session is not running
 * then, also if it was running before and had used its tickets.
 */
flifo_status_t flifo_enter(flifo_session_t session);

/**
 * Enters like `flifo_enter`, but queues for at most `timeout_ns` nanoseconds; 0 does not queue.
 *
 * Returns `FLIFO_TIMEOUT` when that time has passed.
 */
flifo_status_t flifo_enter_until(flifo_session_t session, uint64_t timeout_ns);

/**
 * Enters if that is possible without queueing.
 *
 * Returns `FLIFO_NO_SLOT` if not. The session is not running then, also if it was running before and had used its
 * tickets. While a wait has released the slot it does nothing and returns `FLIFO_NO_SLOT`.
 */
flifo_status_t flifo_try_enter(flifo_session_t session);

/**
 * Enters without queueing, above the limit if need be; exits repay the overshoot.
 *
 * For a session that running threads wait for, such as the holder of a row lock: if it queued behind them, none of
 * them would exit.
 */
flifo_status_t flifo_enter_forced(flifo_session_t session);

/**
 * Exits: hands the slot off to the head of the queue, or releases it.
 *
 * Call it at the end of a statement, before its reply is sent. While a wait has released the slot, the end of that
 * wait acquires none.
 *
 * Returns `FLIFO_NOT_RUNNING`, and does nothing, if the session has not entered.
 */
flifo_status_t flifo_exit(flifo_session_t session);

/**
 * Exits like `flifo_exit`, and ends the time slice.
 *
 * For a session that will not be back at once, such as a session that is about to wait for others and declares no
 * wait.
 *
 * Returns `FLIFO_NOT_RUNNING` if the session has not entered. A slot that is reserved for it (`reserve_slots`) is
 * released all the same.
 */
flifo_status_t flifo_exit_ending_slice(flifo_session_t session);

/**
 * Enters without a slot, which is counted as work, unless a limit is in force. Does nothing unless the session is outside.
 *
 * Returns `FLIFO_NO_SLOT` if a limit is in force: the session is outside, and must acquire a slot as others do.
 */
flifo_status_t flifo_enter_uncounted(flifo_session_t session);

/**
 * Checks whether a session is running: returns `FLIFO_OK` if so, else `FLIFO_NOT_RUNNING`.
 *
 * A session runs from an entry to its exit, except while a wait has released its slot.
 */
flifo_status_t flifo_is_running(flifo_session_t session);

/**
 * Begins a wait: releases the slot if `wait_mask` has this kind and `io_depth` allows it.
 *
 * Waits nest; the end of the outermost wait that released the slot acquires it again. If the session is not
 * running, the wait is counted and releases nothing.
 *
 * `kind`: a `flifo_wait_kind_t`.
 */
flifo_status_t flifo_wait_begin(flifo_session_t session,
                                int kind);

/**
 * Marks the session's row-lock wait as long: it no longer counts for `lock_waiters_max`.
 *
 * For a session that queues behind others for the same lock, or whose lock holder takes its time.
 *
 * Returns `FLIFO_NO_WAIT`, and does nothing, if no wait has begun.
 */
flifo_status_t flifo_mark_wait_long(flifo_session_t session);

/**
 * Ends a wait without blocking, since the caller may hold latches.
 *
 * If the wait released the slot, the session enters by force, with one ticket; exits repay the overshoot.
 *
 * `kind`: the value that `flifo_wait_begin` was called with.
 *
 * Returns `FLIFO_NO_WAIT`, and does nothing, if no wait has begun.
 */
flifo_status_t flifo_wait_end(flifo_session_t session,
                              int kind);

/**
 * Sets whether the session holds locks for which others may wait.
 *
 * It takes effect at the next entry and at the next exit: a lock holder goes on with its time slice, others make
 * room for lock holders.
 *
 * `class_`: a `flifo_class_t`.
 */
flifo_status_t flifo_set_class(flifo_session_t session,
                               int class_);

/**
 * Sets whether the session is within a transaction.
 *
 * Under `FLIFO_POLICY_QUANTUM` its time slice then lasts until the transaction ends, for up to eight quanta: a
 * transaction that is cut in two waits for two rotations of the queue while it holds its locks. A session that
 * never ends a transaction gets up to eight times the time of others. If slices are timed, it gets a deficit from
 * four quanta of CPU time on.
 *
 * `in_transaction`: 0 = no, any other value = yes.
 */
flifo_status_t flifo_set_in_transaction(flifo_session_t session,
                                        int in_transaction);

/**
 * Takes back a cancellation that found the session neither queued nor about to queue.
 *
 * Call it where a statement begins, so that a cancellation that came too late for the statement before does not
 * end this one.
 */
flifo_status_t flifo_forget_cancel(flifo_session_t session);

/**
 * Fills a struct with counters, times, and the numbers of running, pending and queued threads.
 *
 * Takes some ten microseconds, and blocks no entry and no exit.
 *
 * `snapshot`: the struct. `struct_size`: `sizeof (flifo_snapshot_t)`.
 *
 * Rules:
 * `snapshot` is null or has room for `struct_size` bytes.
 */
flifo_status_t flifo_snapshot(flifo_admission_t admission,
                              flifo_snapshot_t *snapshot,
                              size_t struct_size);

/**
 * Writes one line of `key=value` pairs for a log: what a scheduler did and what it is doing.
 *
 * Times are in microseconds. Keys keep their meaning; a key whose value is not known is left out.
 *
 * `buffer`: receives the text, terminated by NUL; may be null if `size` is 0. `size`: the bytes of the buffer; a longer
 * text is cut. `length`: receives the length of the whole text without its NUL; may be null.
 *
 * Rules:
 * `buffer` has room for `size` bytes; `length` is null or writable.
 */
flifo_status_t flifo_status_text(flifo_admission_t admission,
                                 char *buffer,
                                 size_t size,
                                 size_t *length);

/**
 * Returns the text of this thread's last failure: `FLIFO_INVALID`, `FLIFO_TOO_MANY` or `FLIFO_PANIC`.
 *
 * Empty if there was none; never null. The text is valid until the thread's next failure of that kind, or its end.
 */
const char *flifo_last_error(void);

/**
 * Returns one line of text that explains a status. Never null, never freed.
 *
 * A number that is not a status gives a text that says so.
 *
 * `status`: a `flifo_status_t`.
 */
const char *flifo_error_message(int status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FLIFO_H */
