// One client connection as admission sees it, and the map from the server's THD to it.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// Memory of a connection is reused, never freed: a stale pointer stays readable, and its `thd` is null or another's. Only the
// thread that serves the connection touches it, except `thd` and `phase`.
//
// Lock order: a shard's mutex, then the mutex of all connections.
//
// Failure: without memory, or with more connections than the scheduler has sessions, `get` returns null and the statement
// bypasses admission.
#pragma once

#include "abi.h"

#include <flifo.h>

#include <atomic>

namespace flifo {

// What the watcher may do with a connection.
//
//   OUT        not queued: the watcher does not touch the THD
//   QUEUED     queued: the watcher may begin to inspect
//   INSPECTED  the watcher reads the THD: the connection waits before it leaves the queue
enum class Phase : unsigned char { OUT, QUEUED, INSPECTED };

// On cache lines of its own, since the connections next to it run on other CPUs.
struct alignas(64) Connection {
  static constexpr unsigned WAITS_MAX = 8;

  // The THD it belongs to; null if it is free.
  std::atomic<THD *> thd{nullptr};
  std::atomic<Phase> phase{Phase::OUT};
  unsigned thread_id;
  flifo_session_t session;
  flifo_canceller_t canceller;
  // Whether the account bypasses admission, once that is known.
  bool is_administrator, is_account_known;
  // The statements of the first level under way: a text EXECUTE is one inside another.
  unsigned depth;
  // The kinds of the waits under way, outermost first; deeper ones only count.
  unsigned waits;
  unsigned char kinds[WAITS_MAX];
  // What the scheduler was last informed of.
  bool is_in_transaction;

  Connection *next_free;
};

namespace connections {

// Returns this THD's connection, a new one if there is none; null if there is no memory or session left.
Connection *get(THD *thd);
// Returns this THD's connection; null if there is none.
Connection *find(THD *thd);
// Ends the queueing of this THD's connection. Any thread may call this.
void cancel(THD *thd);
// Ends the connection and releases its slot.
void end(THD *thd);
// Calls `visit` with every connection there ever was, ended ones included.
void each(void (*visit)(Connection &));
// Opens the map for sessions of this scheduler.
void open(flifo_admission_t admission);
// Ends all connections. New ones are refused until `open`.
void close();

}  // namespace connections
}  // namespace flifo
