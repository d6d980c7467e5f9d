// A server that exists only for the core's tests: it does what a case says, and remembers what the core asked of it.
//
// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "lifecycle.h"
#include "server.h"
#include "settings.h"

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace flifo::server {

// One connection. A case sets the facts before it reports an event.
struct Thread {
  unsigned long id = 0;
  std::atomic<bool> is_killed{false}, is_queueing{false};
  bool is_idle = false;
  bool has_begun = false, autocommits = true, has_session_locks = false;
  Command::Kind command = Command::Kind::OTHER;
  bool hides_commit_waits = false, runs_init_connect = false, is_of_main_port = true, may_bypass = false, has_bypass_set = false;
  // KILL comes when it has its slot and is about to leave the queue.
  bool is_killed_late = false;
  // The errors that the client receives instead of a result, one for each call of `refuse`; empty for a kill.
  std::vector<std::string> refusals;
};

}  // namespace flifo::server

namespace fake {

using flifo::Command;
using flifo::Event;
using Kind = flifo::Command::Kind;
using Request = flifo::Event::Request;

// What all connections share.
struct Server {
  std::atomic<bool> may_sleep{false}, has_events{true}, can_refuse{true};
  std::atomic<unsigned> warnings{0};
};
extern Server server;

// A client and its connection. It is driven by one thread at a time.
class Client {
 public:
  Client();
  // Disconnects.
  ~Client();
  Client(const Client &) = delete;

  // Connects anew, at the same address, without a disconnect.
  void reconnect_unseen();
  void disconnect();
  // A packet arrives and its first statement begins. Returns whether the server runs it.
  bool begin(const std::string &packet, Request request = Request::QUERY);
  // The packet's statement `number`, counted from 0, ends.
  void end_statement(unsigned number = 0, bool has_failed = false);
  // The statement that the packet's EXECUTE ran ends.
  void end_executed();
  void end_packet();
  // A statement inside begins; returns whether the server runs it.
  bool begin_inside(Request request = Request::QUERY);
  void end_inside();
  // A packet of one statement: begin, work done, end.
  bool run(const std::string &packet, Kind command = Kind::OTHER);
  // Waits for the next command; the command comes.
  void wait_for_command();
  void receive_command();
  // KILL QUERY from another connection.
  void kill();

  flifo::server::Thread thread;

 private:
  Event event(Request request, const char *text, size_t length, unsigned long long id) const;

  std::string packet;
  unsigned long long statement_id = 0;
};

// The numbers of running, pending and queued statements.
struct Counts {
  unsigned running, pending, queued;
};
Counts counts();
// The number that a status variable shows.
unsigned long long shown(const char *name);
// Waits until `is_so`; false after ten seconds.
bool until(const std::function<bool()> &is_so);
// A limit on running statements, without an end of time slices or of patience.
flifo::settings::Values limited_to(unsigned limit);

}  // namespace fake
