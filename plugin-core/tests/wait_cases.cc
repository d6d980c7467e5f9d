// Waits, commits and row locks: who keeps a slot, who releases it, who enters above the limit.
//
// SPDX-License-Identifier: GPL-2.0-only

#include "cases.h"

namespace cases {
namespace {

using fake::Client, fake::counts, fake::Kind, fake::shown, fake::until;
using flifo::settings::Values;
namespace lifecycle = flifo::lifecycle;

constexpr char WORK[] = "UPDATE t SET a = 1";

void end(Client &client) { client.end_statement(), client.end_packet(); }

void each_kind() {
  Client client;
  for (int kind = 0; kind < FLIFO_WAIT_KINDS; kind++) {
    EXPECT(client.begin(WORK));
    lifecycle::on_wait_begin(&client.thread, static_cast<flifo_wait_kind_t>(kind));
    EXPECT(counts().running == (kind == FLIFO_WAIT_ROW_LOCK ? 1 : 0));
    EXPECT(shown("lock_waiters") == (kind == FLIFO_WAIT_ROW_LOCK ? 1 : 0));
    lifecycle::on_wait_end(&client.thread);
    EXPECT(counts().running == 1 && shown("lock_waiters") == 0);
    end(client);
  }
}

void nested() {
  Client client;
  EXPECT(client.begin(WORK));
  // More than are remembered.
  for (int depth = 0; depth < 12; depth++) lifecycle::on_wait_begin(&client.thread, FLIFO_WAIT_DISK);
  EXPECT(counts().running == 0);
  for (int depth = 1; depth < 12; depth++) lifecycle::on_wait_end(&client.thread);
  EXPECT(counts().running == 0);
  lifecycle::on_wait_end(&client.thread);
  EXPECT(counts().running == 1);
  // An end without a begin, as of a wait from before the core started.
  lifecycle::on_wait_end(&client.thread);
  EXPECT(counts().running == 1);
  end(client);
}

// The end of a wait never queues.
void ends_above_the_limit() {
  Client client, other;
  EXPECT(client.begin(WORK));
  lifecycle::on_wait_begin(&client.thread, FLIFO_WAIT_SLEEP);
  EXPECT(other.begin(WORK));
  lifecycle::on_wait_end(&client.thread);
  EXPECT(counts().running == 2);
  end(client), end(other);
}

void statement_ends_in_a_wait() {
  Client client;
  EXPECT(client.begin(WORK));
  lifecycle::on_wait_begin(&client.thread, FLIFO_WAIT_DISK);
  end(client);
  EXPECT(counts().running == 0);
  lifecycle::on_wait_end(&client.thread);
  EXPECT(counts().running == 0);
  EXPECT(client.begin(WORK));
  lifecycle::on_wait_begin(&client.thread, FLIFO_WAIT_ROW_LOCK);
  client.end_packet();
  EXPECT(counts().running == 0 && shown("lock_waiters") == 0);
}

void connection_ends_in_a_wait() {
  {
    Client client;
    EXPECT(client.begin(WORK));
    lifecycle::on_wait_begin(&client.thread, FLIFO_WAIT_DISK);
  }
  EXPECT(counts().running == 0);
  Client client;
  client.thread.hides_commit_waits = true;
  EXPECT(client.begin(WORK));
  lifecycle::on_commit_begin(&client.thread);
  EXPECT(counts().running == 0);
}

void commit() {
  Client client;
  client.thread.hides_commit_waits = true;
  EXPECT(client.begin(WORK));
  lifecycle::on_commit_begin(&client.thread);
  EXPECT(counts().running == 0);
  // A commit inside it, and a wait.
  lifecycle::on_commit_begin(&client.thread);
  lifecycle::on_wait_begin(&client.thread, FLIFO_WAIT_LOG_SYNC);
  lifecycle::on_wait_end(&client.thread);
  lifecycle::on_commit_end(&client.thread);
  EXPECT(counts().running == 0);
  lifecycle::on_commit_end(&client.thread);
  EXPECT(counts().running == 1);
  // The work is done while a commit still waits: no slot is out.
  lifecycle::on_commit_begin(&client.thread);
  EXPECT(lifecycle::on_work_done(&client.thread));
  EXPECT(counts().running == 0);
  // It ends without a slot, and acquires none.
  const unsigned long long forced = shown("admitted_by_force");
  end(client);
  EXPECT(counts().running == 0 && shown("admitted_by_force") == forced);
}

// Nothing to wait for: no log, a statement of a transaction, a SELECT.
void commit_without_changes() {
  Client client;
  EXPECT(client.begin(WORK));
  lifecycle::on_commit_begin(&client.thread);
  EXPECT(counts().running == 1);
  end(client);
  client.thread.hides_commit_waits = client.thread.has_begun = true;
  EXPECT(client.begin(WORK));
  lifecycle::on_commit_begin(&client.thread);
  EXPECT(counts().running == 1);
  end(client);
  // The transaction's own commit.
  client.thread.command = Kind::COMMIT;
  EXPECT(client.begin("COMMIT"));
  lifecycle::on_commit_begin(&client.thread);
  EXPECT(counts().running == 0);
  client.thread.has_begun = false;
  lifecycle::on_commit_end(&client.thread);
  end(client);
  client.thread.command = Kind::SELECT;
  EXPECT(client.begin("SELECT a FROM t"));
  lifecycle::on_commit_begin(&client.thread);
  EXPECT(counts().running == 1);
  end(client);
}

void two_phases() {
  Client client;
  client.thread.hides_commit_waits = true;
  EXPECT(client.begin("XA PREPARE 'a'"));
  EXPECT(counts().running == 0);
  end(client);
  EXPECT(client.begin("XA COMMIT 'a'"));
  EXPECT(counts().running == 0);
  end(client);
}

// A client that may hold locks.
struct Holder : Client {
  Holder() {
    thread.has_begun = true;
    EXPECT(run(WORK));
  }
};

void holder_enters_above_the_limit() {
  Client waiter;
  Holder holder;
  EXPECT(waiter.begin(WORK));
  lifecycle::on_wait_begin(&waiter.thread, FLIFO_WAIT_ROW_LOCK);
  EXPECT(holder.begin(WORK));
  EXPECT(counts().running == 2 && shown("queued_max") == 0);
  end(holder);
  lifecycle::on_wait_end(&waiter.thread);
  end(waiter);
}

void waiter_makes_room_for_a_queued_holder() {
  Client waiter;
  Holder holder;
  EXPECT(waiter.begin(WORK));
  std::thread thread([&holder] { EXPECT(holder.run(WORK)); });
  EXPECT(until([&holder] { return holder.thread.is_queueing && counts().queued == 1; }));
  lifecycle::on_wait_begin(&waiter.thread, FLIFO_WAIT_ROW_LOCK);
  thread.join();
  EXPECT(counts().running == 0);
  lifecycle::on_wait_end(&waiter.thread);
  EXPECT(counts().running == 1);
  end(waiter);
}

}  // namespace

std::vector<Case> of_waits() {
  const Values one = fake::limited_to(1);
  return {
      {"each kind of wait", one, each_kind},
      {"nested waits", one, nested},
      {"a wait ends above the limit", one, ends_above_the_limit},
      {"statement ends in a wait", one, statement_ends_in_a_wait},
      {"connection ends in a wait", one, connection_ends_in_a_wait},
      {"commit", one, commit},
      {"commit without changes", one, commit_without_changes},
      {"commit in two phases", one, two_phases},
      {"holder enters above the limit", one, holder_enters_above_the_limit},
      {"waiter makes room for a queued holder", one, waiter_makes_room_for_a_queued_holder},
  };
}

}  // namespace cases
