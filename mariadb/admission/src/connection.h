// One client connection as admission sees it, and the map from the server's THD to it.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// The server has places of its own for a plugin's state (`thd_setspecific`, session variables), but empties them
// at COM_CHANGE_USER, and cleans them before the last event: a place held then would be lost.

#ifndef FLIFO_CONNECTION_H
#define FLIFO_CONNECTION_H

#include "server.h"
#include "yielding.h"

#include <flifo.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace flifo::lending {
struct Thread;
}

namespace flifo {

constexpr size_t CACHE_LINE = 64;

// Where a connection is, for the thread that looks for killed ones.
enum class Queueing : int {
  No,         // not queued: its THD may be gone at any moment
  Yes,        // queued: its THD stays until this changes
  LookedAt,   // queued, and somebody looks at its THD: it must not leave before this is Yes again
};

// Whether a connection is in a wait that the server tells.
enum class Wait : unsigned char {
  None,
  Keeps,   // and has kept its place
  GaveUp,  // and has none meanwhile
};

// The memory of a connection is never given back, only used again: a pointer to one that is over may be looked
// at, and says that it belongs to another THD or to none. But for the atomics and `seen`, only the thread that
// serves the connection touches it.
//
// On cache lines of its own: its neighbour's statements run on another processor.
struct alignas(CACHE_LINE) Connection {
  // Whose it is; null: free.
  std::atomic<MYSQL_THD> thd{nullptr};
  // Invariant: not No implies that `thd` is in `flifo_enter`.
  std::atomic<Queueing> queueing{Queueing::No};

  unsigned long thread_id;
  flifo_session_t session;
  flifo_canceller_t canceller;

  // It was seen to be a client's: appliers, events and internal threads never are.
  bool is_client;
  // Its account was looked at, and may pass.
  bool privilege_known, is_admin;

  // It was let in, and its first statement has not begun; or that is `init_connect`, which the server runs itself.
  bool connects;

  // A statement of the client's is under way, or of whoever else it may be; and it asked nobody.
  bool in_statement, passes;
  // Its id, or 0 if that is not known: of all but the first in a packet.
  unsigned long long query_id;
  // The text of the packet that it came in; null if its begin was not seen. Its own lies in there, those of statements within it
  // lie elsewhere.
  const char *packet, *packet_end;
  // Where that last frees a name; its end: nowhere; null: that was not looked for.
  const char *names_freed_at;
  // It is an EXECUTE, and what it executes has begun and not ended.
  bool executes;
  // A statement within it has begun, whether or not it has ended.
  bool within;
  // One within it has committed what it locked: the next asks anew.
  bool asks_again;
  // The text that was looked at when it raised an error.
  const char *failed_text;
  // Why it got no place: it was refused, or killed in the queue. FLIFO_OK: neither.
  flifo_status_t kept_out;
  // What was seen of the current transaction, and of LOCK TABLES. `holds_locks` implies `may_hold_locks`, which is also
  // true after what was not seen.
  bool in_transaction, may_hold_locks, holds_locks;
  // The statements of the last packet have changed and locked no rows, nor has their transaction, as far as was seen; and since then
  // the connection has not yielded. Of meaning between two packets only.
  bool has_only_read;
  // The session's class, and whether it knows that it is in a transaction.
  flifo_class_t session_class;
  bool told_in_transaction;
  // What it locked besides: kinds of `SessionLocks`.
  unsigned char session_locks;

  // It waits for a row lock; and the place it had went to others for so long.
  std::atomic<bool> waits_for_row{false};
  bool gave_up_place;
  // It may hold locks for which others wait, and has been between two statements since then.
  std::chrono::steady_clock::time_point idle_since;

  // For the one that looks for sleepers. The thread that serves it, and the number of its stays inside so far; `lender` is the
  // canceller's id.
  std::atomic<Wait> wait{Wait::None};
  std::atomic<lending::Thread *> thread{nullptr};
  // Only the thread that serves it writes it.
  std::atomic<unsigned> stay{0};
  // The stay that has become a long one, whose place is lent until its end; 0: none.
  std::atomic<unsigned> long_stay{0};
  std::atomic<uint64_t> lender{0};
  // Where that one finds it, while it is inside.
  std::atomic<Connection *> *slot = nullptr;
  bool has_no_slot = false;
  // What that one has seen of this stay; nobody else touches it.
  struct Seen {
    unsigned stay;
    bool sleeps, is_lent;
    unsigned long long run_ns;
    // Since when it was seen in this stay, but for waits that give its place up; and since when it sleeps.
    std::chrono::steady_clock::time_point first, since;
  } seen{};

  // The waits it is in, innermost last; more than fit are only counted.
  static constexpr unsigned WAITS_MAX = 8;
  unsigned waits;
  unsigned char wait_kinds[WAITS_MAX];

  Yields yields;

  Connection *next_free;
};

namespace connections {

// This THD's connection; a new one if there is none. Null if there is no memory, or no more sessions.
Connection *get(MYSQL_THD thd);

// This THD's connection; null if there is none.
Connection *find(MYSQL_THD thd);

// The connection is over: it leaves, its place goes to the next.
void end(MYSQL_THD thd);

// Opens the map, for sessions of this scheduler.
void open(flifo_admission_t admission);

// Ends all connections, and keeps new ones out until it is opened again.
void close();

// Cancels what is queued and was killed.
void cancel_killed();

// How often connections have yielded before they slept, since the plugin was loaded.
YieldCounts yields();

}  // namespace connections
}  // namespace flifo

#endif
