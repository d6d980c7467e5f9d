// SPDX-License-Identifier: GPL-2.0-only

#include "fake_server.h"

#include "status.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>

namespace {

std::mutex kills;
std::condition_variable killed;

}  // namespace

namespace flifo::server {

unsigned long id(Thread *thread) { return thread->id; }
bool is_killed(Thread *thread) { return thread->is_killed; }
bool is_idle(Thread *thread) { return thread->is_idle; }
LockScope lock_scope(Thread *thread) { return LockScope(thread->has_begun, thread->autocommits, thread->has_session_locks); }
Command command(Thread *thread) { return Command(thread->command); }
bool hides_commit_waits(Thread *thread) { return thread->hides_commit_waits; }
bool runs_init_connect(Thread *thread) { return thread->runs_init_connect; }
bool is_of_main_port(Thread *thread) { return thread->is_of_main_port; }
bool may_bypass(Thread *thread) { return thread->may_bypass; }
bool has_bypass_set(Thread *thread) { return thread->has_bypass_set; }
void begin_queueing(Thread *thread) { thread->is_queueing = true; }

void end_queueing(Thread *thread) {
  if (thread->is_killed_late) {
    thread->is_killed = true;
    // Until the watcher has seen it.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  thread->is_queueing = false;
}

void wait_for_kill(std::chrono::milliseconds most) {
  std::unique_lock<std::mutex> guard(kills);
  killed.wait_for(guard, most);
}

bool can_refuse() { return fake::server.can_refuse; }

void refuse(Thread *thread, const char *text) {
  thread->is_killed = true;
  thread->refusals.push_back(text == nullptr ? "" : text);
}

bool may_sleep() { return fake::server.may_sleep; }
void set_events(bool are_on) { fake::server.has_events = are_on; }
void restore_events_of_others() {
  if (!fake::server.may_sleep) fake::server.has_events = true;
}
void warn(const char *) { fake::server.warnings++; }
const char *const ALL_BYPASS = "all statements bypass admission";

}  // namespace flifo::server

namespace fake {

using namespace flifo;

Server server;

namespace {

unsigned long new_id() {
  static std::atomic<unsigned long> last{0};
  return ++last;
}

}  // namespace

Client::Client() {
  thread.id = new_id();
  lifecycle::on_connect(&thread);
}

Client::~Client() { disconnect(); }
void Client::reconnect_unseen() {
  thread.id = new_id();
  lifecycle::on_connect(&thread);
}
void Client::disconnect() { lifecycle::on_disconnect(&thread); }

Event Client::event(Request request, const char *text, size_t length, unsigned long long id) const {
  return {request, false, false, text, static_cast<unsigned>(length), id};
}

bool Client::begin(const std::string &text, Request request) {
  packet = text;
  thread.is_idle = false;
  statement_id = new_id();
  if (server.has_events) lifecycle::on_statement_begin(&thread, event(request, packet.data(), packet.size(), statement_id));
  return !thread.is_killed;
}

void Client::end_statement(unsigned number, bool has_failed) {
  size_t begin = 0;
  for (unsigned i = 0; i < number; i++) begin = packet.find(';', begin) + 1;
  const size_t end = std::min(packet.find(';', begin), packet.size());
  Event ended = event(Request::QUERY, packet.data() + begin, end - begin, statement_id);
  ended.has_failed = has_failed || thread.is_killed;
  if (server.has_events) lifecycle::on_statement_end(&thread, ended);
}

void Client::end_executed() {
  static const std::string TEXT = "UPDATE t SET a = 1";
  if (server.has_events) lifecycle::on_statement_end(&thread, event(Request::QUERY, TEXT.data(), TEXT.size(), statement_id));
}

void Client::end_packet() {
  if (server.has_events) lifecycle::on_packet_end(&thread, event(Request::OTHER, nullptr, 0, 0));
  thread.is_killed = false;
  thread.is_idle = true;
}

bool Client::begin_inside(Request request) {
  static const std::string TEXT = "INSERT INTO t VALUES (1)";
  const unsigned long long id = request == Request::EXECUTE ? statement_id : new_id();
  if (server.has_events) lifecycle::on_statement_begin(&thread, event(request, TEXT.data(), TEXT.size(), id));
  return !thread.is_killed;
}

void Client::end_inside() {
  static const std::string TEXT = "INSERT INTO t VALUES (1)";
  if (server.has_events) lifecycle::on_statement_end(&thread, event(Request::QUERY, TEXT.data(), TEXT.size(), new_id()));
}

bool Client::run(const std::string &text, Kind command) {
  thread.command = command;
  const bool runs = begin(text);
  if (server.has_events) lifecycle::on_work_done(&thread);
  end_statement();
  end_packet();
  return runs;
}

void Client::wait_for_command() {
  thread.is_idle = true;
  lifecycle::on_wait_begin(&thread, FLIFO_WAIT_NETWORK);
}

void Client::receive_command() { lifecycle::on_wait_end(&thread); }

void Client::kill() {
  std::lock_guard<std::mutex> guard(kills);
  thread.is_killed = true;
  killed.notify_all();
}

Counts counts() {
  flifo_snapshot_t now;
  memset(&now, 0, sizeof now);
  flifo_snapshot(settings::admission(), &now, sizeof now);
  return {now.running, now.pending, now.queued};
}

unsigned long long shown(const char *name) {
  status::Row rows[status::ROWS_MAX];
  const size_t length = status::report(rows);
  for (size_t at = 0; at < length; at++)
    if (strcmp(rows[at].name, name) == 0) return rows[at].number;
  return ~0ULL;
}

bool until(const std::function<bool()> &is_so) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

settings::Values limited_to(unsigned limit) {
  settings::Values values{};
  values.thread_concurrency = limit;
  values.policy = settings::DEFAULT_POLICY;
  values.quantum_us = settings::QUANTUM.def;
  return values;
}

}  // namespace fake
