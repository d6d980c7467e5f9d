// Dormancy: when it begins and ends, and what is known of connections afterwards.
//
// SPDX-License-Identifier: GPL-2.0-only

#include "cases.h"

#include "dormancy.h"

namespace cases {
namespace {

using fake::Client, fake::counts, fake::Kind, fake::server, fake::shown, fake::until;
using flifo::settings::Values;
namespace lifecycle = flifo::lifecycle;
namespace dormancy = flifo::dormancy;

constexpr char WORK[] = "UPDATE t SET a = 1";

void fall_asleep() {
  server.may_sleep = true;
  EXPECT(until([] { return dormancy::is_on() && !server.has_events; }));
}

// As SET GLOBAL does.
void set_limit(unsigned limit) {
  flifo::settings::values.thread_concurrency = limit;
  EXPECT(flifo::settings::apply() == nullptr);
}

void on_and_off() {
  Client client;
  client.wait_for_command();
  fall_asleep();
  for (int i = 0; i < 3; i++) {
    client.receive_command();
    EXPECT(client.run(WORK));
    client.wait_for_command();
  }
  EXPECT(counts().running == 0 && shown("queued_max") == 0);
  set_limit(1);
  EXPECT(!dormancy::is_on() && server.has_events);
  client.receive_command();
  EXPECT(client.begin(WORK));
  EXPECT(counts().running == 1);
  client.end_statement();
  client.end_packet();
  client.wait_for_command();
}

void statement_under_way() {
  Client client, other;
  client.wait_for_command();
  fall_asleep();
  client.receive_command();
  EXPECT(client.begin("CALL p()"));
  lifecycle::on_wait_begin(&client.thread, FLIFO_WAIT_DISK);
  lifecycle::on_wait_end(&client.thread);
  set_limit(1);
  // A statement inside it is the first that is announced: it bypasses, as the whole does.
  EXPECT(client.begin_inside());
  EXPECT(other.begin(WORK));
  client.end_inside();
  EXPECT(client.begin_inside());
  EXPECT(client.thread.refusals.empty() && shown("queued_max") == 0);
  client.end_inside();
  client.end_statement();
  client.end_packet();
  EXPECT(counts().running == 1);
  // In a transaction it may have locked rows, so it is not refused.
  flifo::settings::values.queue_timeout_ms = 20;
  set_limit(1);
  client.thread.has_begun = true;
  EXPECT(client.run("SELECT a FROM t", Kind::SELECT));
  EXPECT(shown("queued_max") == 1 && client.thread.refusals.empty());
  client.thread.has_begun = false;
  EXPECT(!client.run(WORK));
  other.end_statement(), other.end_packet();
}

void ends_while_dormant() {
  Client *client = new Client;
  client->wait_for_command();
  fall_asleep();
  client->receive_command();
  delete client;
  EXPECT(counts().running == 0);
}

// Another plugin needs the events.
void ends_for_another_plugin() {
  fall_asleep();
  server.may_sleep = false;
  EXPECT(until([] { return !dormancy::is_on() && server.has_events; }));
}

void never_begins() {
  // Long enough for the watcher to look several times.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT(!dormancy::is_on() && server.has_events);
}

}  // namespace

std::vector<Case> of_dormancy() {
  const Values adaptive = fake::limited_to(flifo::settings::AUTO);
  return {
      {"dormancy on and off", adaptive, on_and_off},
      {"dormant statement under way", adaptive, statement_under_way},
      {"connection ends while dormant", adaptive, ends_while_dormant},
      {"dormancy ends for another plugin", adaptive, ends_for_another_plugin},
      {"dormancy never begins", adaptive, never_begins},
  };
}

}  // namespace cases
