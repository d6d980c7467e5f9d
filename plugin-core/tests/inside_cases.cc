// Packets of several statements, and statements inside statements.
//
// SPDX-License-Identifier: GPL-2.0-only

#include "cases.h"

namespace cases {
namespace {

using fake::Client, fake::counts, fake::Kind, fake::Request, fake::shown, fake::until;
using flifo::settings::Values;

constexpr char WORK[] = "UPDATE t SET a = 1";

void packet_of_several() {
  Client client;
  EXPECT(client.begin("UPDATE t SET a = 1;UPDATE t SET a = 2;COMMIT"));
  for (unsigned number = 0; number < 3; number++) {
    EXPECT(counts().running == 1);
    EXPECT(flifo::lifecycle::on_work_done(&client.thread));
    EXPECT(counts().running == 0);
    client.end_statement(number);
  }
  EXPECT(counts().running == 0);
  client.end_packet();
  EXPECT(shown("admitted") == 3);
}

// An error ends the packet.
void packet_ends_early() {
  Client client;
  EXPECT(client.begin("UPDATE t SET a = 1;UPDATE t SET a = 2"));
  client.end_statement(0, true);
  EXPECT(counts().running == 0);
  client.end_packet();
  EXPECT(client.begin("UPDATE t SET a = 1;UPDATE t SET a = 2"));
  client.kill();
  client.end_statement(0);
  EXPECT(counts().running == 0);
  client.end_packet();
}

// Each statement of a packet asks anew, and may be refused.
void packet_is_refused_later() {
  Client client, other;
  EXPECT(client.begin("UPDATE t SET a = 1;UPDATE t SET a = 2"));
  EXPECT(flifo::lifecycle::on_work_done(&client.thread));
  EXPECT(other.begin(WORK));
  client.end_statement(0);
  EXPECT(client.thread.is_killed && shown("refused") == 1);
  client.end_statement(1);
  client.end_packet();
  EXPECT(counts().running == 1);
  other.end_statement(), other.end_packet();
}

void procedure() {
  Client client;
  EXPECT(client.begin("CALL p()"));
  for (int i = 0; i < 10; i++) {
    EXPECT(client.begin_inside());
    EXPECT(counts().running == 1);
    client.end_inside();
    EXPECT(counts().running == 1);
  }
  client.end_statement();
  client.end_packet();
  EXPECT(shown("admitted") == 1);
}

// After a commit the next statement of a procedure queues, is never refused, and gets its slot.
void procedure_that_commits() {
  Client client, other;
  client.thread.hides_commit_waits = true;
  EXPECT(client.begin("CALL p()"));
  EXPECT(client.begin_inside());
  flifo::lifecycle::on_commit_begin(&client.thread);
  EXPECT(counts().running == 0);
  EXPECT(other.begin(WORK));
  flifo::lifecycle::on_commit_end(&client.thread);
  EXPECT(counts().running == 2);
  client.end_inside();
  std::thread next([&client] { EXPECT(client.begin_inside()); });
  EXPECT(until([&client] { return client.thread.is_queueing && counts().running == 1; }));
  // For longer than its time in the queue it is admitted by force.
  next.join();
  EXPECT(counts().running == 2 && client.thread.refusals.empty());
  other.end_statement(), other.end_packet();
  client.end_inside(), client.end_statement(), client.end_packet();
}

void execute_by_name() {
  Client client;
  EXPECT(client.begin("EXECUTE s"));
  EXPECT(client.begin_inside(Request::EXECUTE));
  client.end_executed();
  EXPECT(counts().running == 1);
  client.end_statement();
  EXPECT(counts().running == 0);
  client.end_packet();
  EXPECT(shown("admitted") == 1);
}

flifo::Event error_of(const char *text, bool is_of_execute) {
  return {Request::OTHER, true, is_of_execute, text, 1, 0};
}

// No event but the error shows the end of an EXECUTE that fails before it runs anything.
void execute_fails() {
  for (const bool is_named : {false, true}) {
    Client client;
    client.thread.command = is_named ? Kind::OTHER : Kind::EXECUTE;
    const char *const foreign = "another text";
    EXPECT(client.begin("EXECUTE unknown"));
    flifo::lifecycle::on_error(&client.thread, error_of(foreign, is_named));
    EXPECT(counts().running == 1);
    client.end_statement();
    client.end_packet();
  }
  // Here the error is of the packet's own text.
  static const char PACKET[] = "EXECUTE unknown";
  for (const bool is_named : {false, true}) {
    Client client;
    client.thread.command = is_named ? Kind::OTHER : Kind::EXECUTE;
    flifo::lifecycle::on_statement_begin(&client.thread, {Request::QUERY, false, false, PACKET, sizeof PACKET - 1, 7});
    EXPECT(counts().running == 1);
    flifo::lifecycle::on_error(&client.thread, error_of(PACKET, is_named));
    EXPECT(counts().running == 0);
  }
}

// A statement was under way when the core started: it bypasses until the packet's end.
void begin_was_not_seen() {
  Client client;
  client.disconnect();
  EXPECT(client.begin_inside());
  EXPECT(counts().running == 0);
  client.end_inside();
  client.end_packet();
  // The packet's end shows that it is a client, which may hold locks.
  EXPECT(client.begin(WORK));
  EXPECT(counts().running == 1);
  client.end_statement();
  client.end_packet();
  EXPECT(shown("bypassed") == 1);
}

void other_requests_are_ignored() {
  Client client;
  client.begin("SELECT 1 FROM t", Request::OTHER);
  EXPECT(counts().running == 0);
  client.end_packet();
  client.thread.has_begun = true;
  client.run(WORK);
  // A reset of the session frees what it held.
  client.thread.has_begun = false;
  flifo::lifecycle::on_packet_end(&client.thread, {Request::RESET, false, false, nullptr, 0, 0});
  EXPECT(counts().running == 0);
}

}  // namespace

std::vector<Case> of_insides() {
  const Values one = fake::limited_to(1);
  Values refusing = one;
  refusing.queue_timeout_ms = 20;
  return {
      {"packet of several", one, packet_of_several},
      {"packet ends early", one, packet_ends_early},
      {"packet is refused later", refusing, packet_is_refused_later},
      {"procedure", one, procedure},
      {"procedure that commits", refusing, procedure_that_commits},
      {"EXECUTE by name", one, execute_by_name},
      {"EXECUTE fails", one, execute_fails},
      {"begin was not seen", one, begin_was_not_seen},
      {"other requests are ignored", one, other_requests_are_ignored},
  };
}

}  // namespace cases
