// One client connection as admission sees it, and the map from the server's thread to it.
//
// SPDX-License-Identifier: GPL-2.0-only
//
// Servers empty their storage for a plugin's state (such as session variables) when a connection changes its user, and before the
// connection's last event. A slot held at that moment would leak, so the plugin keeps a map.
//
// Memory of a connection is reused, never freed: a stale pointer stays readable, and its `thread` is null or another's. Only the
// thread that serves the connection touches it, except `thread` and `queue.phase`.
//
// Failure: without memory, or with more connections than the scheduler has sessions, `get` returns null and the statement
// bypasses admission.
#pragma once

#include "holdings.h"
#include "lifecycle.h"
#include "packet.h"
#include "queueing.h"
#include "rowlocks.h"
#include "server.h"
#include "statement.h"
#include "waits.h"

#include <flifo.h>

#include <atomic>
#include <cstddef>

namespace flifo {

// On cache lines of its own, since the connections next to it run on other CPUs.
struct alignas(64) Connection {
  // The server's thread it belongs to; null if it is free.
  std::atomic<server::Thread *> thread{nullptr};
  unsigned long thread_id;
  flifo_session_t session;
  flifo_canceller_t canceller;

  queueing::State queue;
  // `dormancy::period` when the connection was last seen awake.
  unsigned dormant_period;
  lifecycle::Account account;
  Statement statement;
  Packet packet;
  Holdings holdings;
  waits::State waits;
  rowlocks::State row_lock;
  // For the server's part alone; all zero when the connection begins.
  static constexpr size_t OF_SERVER_SIZE = 32;
  alignas(8) unsigned char of_server[OF_SERVER_SIZE];

  Connection *next_free;
};

namespace connections {

// Returns this thread's connection, a new one if there is none; null if there is no memory or session left.
Connection *get(server::Thread *thread);
// Returns this thread's connection; null if there is none.
Connection *find(server::Thread *thread);
// Ends the connection and releases its slot.
void end(server::Thread *thread);
// Calls `visit` with every connection there ever was, ended ones included.
void each(void (*visit)(Connection &));
// Opens the map for sessions of this scheduler.
void open(flifo_admission_t admission);
// Ends all connections. New ones are refused until `open`.
void close();

}  // namespace connections
}  // namespace flifo
