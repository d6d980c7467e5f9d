// How statements are admitted, queued and refused, and who is not subject to admission.
//
// SPDX-License-Identifier: GPL-2.0-only

#include "cases.h"

#include "status.h"

namespace cases {
namespace {

using fake::Client, fake::counts, fake::Kind, fake::shown, fake::until;
using flifo::settings::Values;

constexpr char WORK[] = "UPDATE t SET a = 1";

Values with_timeout(unsigned ms) {
  Values values = fake::limited_to(1);
  values.queue_timeout_ms = ms;
  return values;
}

Values with_queue(unsigned length) {
  Values values = fake::limited_to(1);
  values.max_queue = length;
  return values;
}

// Holds the only slot while it lives.
struct Busy {
  Client client;
  Busy() { EXPECT(client.begin(WORK)); }
  ~Busy() { client.end_statement(), client.end_packet(); }
};

// Runs one statement in a thread of its own; it is queued when the constructor returns.
class Queued {
 public:
  explicit Queued(Client &client) : client(client), thread([&client, this] { ran = client.run(WORK); }) {
    EXPECT(until([&client] { return client.thread.is_queueing && counts().queued != 0; }));
  }
  bool join() {
    thread.join();
    EXPECT(!client.thread.is_queueing);
    return ran;
  }

 private:
  Client &client;
  bool ran = false;
  std::thread thread;
};

void admitted() {
  Client client;
  EXPECT(client.begin(WORK));
  EXPECT(counts().running == 1);
  EXPECT(flifo::lifecycle::on_work_done(&client.thread));
  // Before the commit waits for the log, and before the reply.
  EXPECT(counts().running == 0);
  client.end_statement();
  client.end_packet();
  EXPECT(!flifo::lifecycle::on_work_done(&client.thread));
  EXPECT(client.run("SELECT a FROM t", Kind::SELECT));
  EXPECT(shown("admitted") == 2 && shown("bypassed") == 0);
}

void queued() {
  Client client;
  Busy *busy = new Busy;
  Queued other(client);
  EXPECT(counts().running == 1 && counts().queued == 1);
  delete busy;
  EXPECT(other.join());
  EXPECT(shown("admitted_from_queue") == 1);
}

void refused_by_timeout() {
  Client client;
  const Busy busy;
  EXPECT(!client.run(WORK));
  EXPECT(client.thread.refusals.size() == 1);
  EXPECT(client.thread.refusals.back() == "flifo: not admitted within 20 ms (flifo_queue_timeout); nothing was executed, try again");
  EXPECT(shown("refused") == 1 && counts().running == 1);
}

void refused_by_full_queue() {
  Client first, second;
  {
    const Busy busy;
    Queued other(first);
    EXPECT(!second.run(WORK));
    EXPECT(second.thread.refusals.back() ==
           "flifo: the queue for admission is full (flifo_max_queue = 1); nothing was executed, try again");
    EXPECT(shown("refused") == 1);
    first.kill();
    EXPECT(!other.join());
  }
  EXPECT(second.run(WORK));
}

void urgent_never_waits() {
  const Busy busy;
  Client client;
  for (const char *text : {"KILL 5", "COMMIT", "SHOW PROCESSLIST", "SET autocommit = 1"}) {
    EXPECT(client.begin(text));
    EXPECT(counts().running == 2);
    client.end_statement();
    client.end_packet();
  }
  EXPECT(shown("queued_max") == 0 && client.thread.refusals.empty());
}

void init_connect_never_waits() {
  const Busy busy;
  Client client;
  client.thread.runs_init_connect = true;
  EXPECT(client.run(WORK));
  EXPECT(shown("queued_max") == 0);
  // The client's first own statement.
  client.thread.runs_init_connect = false;
  EXPECT(!client.run(WORK));
  EXPECT(shown("refused") == 1);
}

void minor_is_never_refused() {
  const Busy busy;
  Client client;
  EXPECT(client.run("SELECT 1", Kind::SELECT));
  EXPECT(shown("queued_max") == 1 && shown("refused") == 0);
}

void holder_is_never_refused() {
  Client client;
  client.thread.has_begun = true;
  client.run("BEGIN");
  EXPECT(client.run(WORK));
  {
    const Busy busy;
    EXPECT(client.run(WORK));
    EXPECT(shown("queued_max") == 1 && shown("refused") == 0);
    client.thread.has_begun = false;
    EXPECT(client.run("COMMIT", Kind::COMMIT));
    // The transaction is over.
    EXPECT(!client.run(WORK));
    EXPECT(shown("refused") == 1);
  }
  // A statement that was refused has locked nothing.
  client.thread.autocommits = false;
  const Busy busy;
  EXPECT(!client.run(WORK));
  EXPECT(!client.run(WORK));
  EXPECT(shown("refused") == 3);
  // Nor has a client that has just connected.
  Client fresh;
  fresh.thread.autocommits = false;
  EXPECT(!fresh.run(WORK));
}

void session_locks_make_a_holder() {
  Client client;
  client.thread.has_session_locks = true;
  EXPECT(client.run("SELECT GET_LOCK('a', 1)", Kind::SELECT));
  const Busy busy;
  EXPECT(client.run(WORK));
  client.thread.has_session_locks = false;
  EXPECT(client.run("SELECT RELEASE_LOCK('a')", Kind::SELECT));
  EXPECT(!client.run(WORK));
}

void killed_in_the_queue() {
  Client client;
  const Busy busy;
  Queued other(client);
  client.kill();
  EXPECT(!other.join());
  EXPECT(shown("cancelled") == 1 && shown("refused") == 0 && counts().queued == 0);
  // The next statement is not killed.
  Queued next(client);
  EXPECT(counts().queued == 1);
  client.kill();
  EXPECT(!next.join());
}

// A KILL that comes too late for one statement does not end the next.
void killed_too_late() {
  Client client;
  client.thread.is_killed_late = true;
  Busy *busy = new Busy;
  Queued other(client);
  delete busy;
  EXPECT(!other.join());
  EXPECT(shown("admitted_from_queue") == 1 && shown("cancelled") == 0);
  client.thread.is_killed_late = false;
  busy = new Busy;
  Queued next(client);
  delete busy;
  EXPECT(next.join());
  EXPECT(shown("cancelled") == 0);
}

void lost_kill_is_repeated() {
  Client client;
  const Busy busy;
  EXPECT(!client.begin("CALL p()"));
  // The server forgets it, and goes on with the next statement of the procedure.
  client.thread.is_killed = false;
  EXPECT(!client.begin_inside());
  EXPECT(client.thread.refusals.size() == 2);
  client.thread.is_killed = false;
  client.end_inside();
  EXPECT(client.thread.refusals.size() == 3);
  EXPECT(counts().running == 1);
  client.end_statement();
  client.end_packet();
}

void bypasses() {
  const Busy busy;
  Client other_port, session;
  other_port.thread.is_of_main_port = false;
  other_port.reconnect_unseen();
  session.thread.has_bypass_set = true;
  EXPECT(other_port.run(WORK) && session.run(WORK));
  // The account's privileges are looked up when it connects.
  Client admin;
  admin.thread.may_bypass = true;
  admin.reconnect_unseen();
  EXPECT(admin.begin(WORK));
  EXPECT(admin.begin_inside());
  admin.end_inside(), admin.end_statement(), admin.end_packet();
  EXPECT(shown("bypassed") == 3 && shown("queued_max") == 0 && counts().running == 1);
  // Another account, and another role.
  admin.thread.may_bypass = false;
  flifo::lifecycle::on_change_user(&admin.thread, false);
  EXPECT(!admin.run(WORK));
  admin.thread.may_bypass = true;
  EXPECT(admin.run("SET ROLE dba"));
  EXPECT(admin.run(WORK));
}

void all_bypass_is_warned_of() {
  Client admin;
  admin.thread.may_bypass = true;
  admin.reconnect_unseen();
  for (int i = 0; i < 1000; i++) admin.run(WORK);
  EXPECT(until([] { return fake::server.warnings == 1; }));
}

void no_limit() {
  Client client;
  EXPECT(client.run(WORK));
  EXPECT(shown("bypassed") == 0 && shown("admitted") == 0);
}

void ends_mid_statement() {
  // At a disconnect, at the server's release, at a change of user, and where the next command is awaited.
  for (int how = 0; how < 5; how++) {
    Client client;
    EXPECT(client.begin(WORK));
    EXPECT(counts().running == 1);
    if (how == 0) client.disconnect();
    if (how == 1) flifo::lifecycle::on_release(&client.thread);
    if (how == 2) flifo::lifecycle::on_change_user(&client.thread, true);
    if (how == 3) client.wait_for_command();
    if (how == 4) client.reconnect_unseen();
    EXPECT(counts().running == 0);
    EXPECT(!flifo::lifecycle::on_work_done(&client.thread));
    EXPECT(client.run(WORK));
  }
}

void address_is_reused() {
  Client client;
  client.thread.has_begun = true;
  EXPECT(client.run(WORK));
  // The next connection holds nothing, so it is refused.
  client.thread.has_begun = false;
  client.reconnect_unseen();
  const Busy busy;
  EXPECT(!client.run(WORK));
}

void stopped_with_connections() {
  // Their slots are released when the core stops.
  static Client left, busy;
  EXPECT(left.run(WORK));
  EXPECT(busy.begin(WORK));
  flifo::lifecycle::on_release(&busy.thread);
}

// Clients that run, queue, fail, are killed and disconnect, all at once.
void storm() {
  constexpr unsigned CLIENTS = 12, STATEMENTS = 150;
  std::vector<std::thread> threads;
  std::atomic<unsigned> ran{0}, failed{0};
  std::atomic<bool> is_over{false};
  Client *clients[CLIENTS];
  for (unsigned i = 0; i < CLIENTS; i++) clients[i] = new Client;
  for (unsigned i = 0; i < CLIENTS; i++) {
    threads.emplace_back([&, i] {
      Client &client = *clients[i];
      client.thread.hides_commit_waits = true;
      for (unsigned n = 0; n < STATEMENTS; n++) {
        client.thread.has_begun = (n + i) % 5 < 2;
        client.thread.command = Kind::OTHER;
        const bool runs = client.begin((n + i) % 7 == 0 ? "SHOW STATUS" : WORK);
        ++(runs ? ran : failed);
        const auto kind = static_cast<flifo_wait_kind_t>((n + i) % FLIFO_WAIT_KINDS);
        if (runs && kind != FLIFO_WAIT_NETWORK) {
          flifo::lifecycle::on_wait_begin(&client.thread, kind);
          std::this_thread::yield();
          flifo::lifecycle::on_wait_end(&client.thread);
        }
        if (runs && n % 3 == 0) client.begin_inside(), client.end_inside();
        flifo::lifecycle::on_work_done(&client.thread);
        flifo::lifecycle::on_commit_begin(&client.thread);
        if (n % 11 != 0) flifo::lifecycle::on_commit_end(&client.thread);
        if (n % 13 != 0) client.end_statement();
        client.end_packet();
        if (n % 50 == 49) client.disconnect(), client.reconnect_unseen();
      }
    });
  }
  std::thread killer([&] {
    for (unsigned n = 0; !is_over; n++) {
      Client &client = *clients[n % CLIENTS];
      if (client.thread.is_queueing) client.kill();
      std::this_thread::yield();
    }
  });
  for (std::thread &thread : threads) thread.join();
  is_over = true;
  killer.join();
  for (Client *client : clients) delete client;
  EXPECT(ran + failed == CLIENTS * STATEMENTS && ran != 0);
  EXPECT(shown("lock_waiters") == 0);
}

Values of_storm() {
  Values values = fake::limited_to(2);
  values.queue_timeout_ms = 2;
  values.max_queue = 6;
  return values;
}

}  // namespace

std::vector<Case> of_admission() {
  const Values one = fake::limited_to(1);
  return {
      {"admitted", one, admitted},
      {"queued", one, queued},
      {"refused by timeout", with_timeout(20), refused_by_timeout},
      {"refused by a full queue", with_queue(1), refused_by_full_queue},
      {"urgent never waits", with_timeout(20), urgent_never_waits},
      {"init_connect never waits", with_timeout(20), init_connect_never_waits},
      {"minor is never refused", with_timeout(20), minor_is_never_refused},
      {"holder is never refused", with_timeout(20), holder_is_never_refused},
      {"session locks make a holder", with_timeout(20), session_locks_make_a_holder},
      {"killed in the queue", one, killed_in_the_queue},
      {"killed too late", one, killed_too_late},
      {"lost kill is repeated", with_timeout(20), lost_kill_is_repeated},
      {"bypasses", with_timeout(20), bypasses},
      {"all bypass is warned of", one, all_bypass_is_warned_of},
      {"no limit", fake::limited_to(0), no_limit},
      {"ends mid-statement", one, ends_mid_statement},
      {"address is reused", with_timeout(20), address_is_reused},
      {"stopped with connections", one, stopped_with_connections},
      {"storm", of_storm(), storm},
  };
}

}  // namespace cases
