/*
 * Checks the status of every misuse of the interface. Exits with the number of wrong results.
 */
#include <flifo.h>

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong = 0;

static void check(int ok, int line, const char *what, int got)
{
  if (!ok) {
    fprintf(stderr, "misuse.c:%d: %s gave %d: %s (%s)\n", line, what, got, flifo_error_message(got),
            flifo_last_error());
    wrong++;
  }
}

/* Evaluates the call once. */
#define GIVES(status, call)                                         \
  do {                                                              \
    int got_ = (int)(call);                                         \
    check(got_ == (int)(status), __LINE__, #call, got_);            \
  } while (0)
#define TRUE(condition) check(!!(condition), __LINE__, #condition, -1)

static const flifo_admission_t no_admission = {0};
static const flifo_session_t no_session = {0};
static const flifo_canceller_t no_canceller = {0};

static flifo_admission_t one_slot(void)
{
  flifo_admission_t admission;
  flifo_config_t config;
  GIVES(FLIFO_OK, flifo_config_init(&config, sizeof config));
  config.policy = FLIFO_POLICY_FIFO;
  config.thread_concurrency = 1;
  config.stall_limit_ns = 0;
  GIVES(FLIFO_OK, flifo_admission_new(&config, &admission));
  return admission;
}

static void null_pointers(void)
{
  flifo_admission_t admission = one_slot();
  flifo_session_t session;
  flifo_config_t config;
  flifo_snapshot_t snapshot;
  int policy;
  char text[8];
  size_t length = 0;

  GIVES(FLIFO_OK, flifo_session_new(admission, &session));
  GIVES(FLIFO_INVALID, flifo_config_init(NULL, sizeof config));
  GIVES(FLIFO_INVALID, flifo_config_init(&config, 0));
  GIVES(FLIFO_INVALID, flifo_config_init(&config, SIZE_MAX));
  GIVES(FLIFO_INVALID, flifo_admission_new(NULL, NULL));
  GIVES(FLIFO_INVALID, flifo_reconfigure(admission, NULL));
  GIVES(FLIFO_INVALID, flifo_admission_config(admission, NULL, sizeof config));
  GIVES(FLIFO_INVALID, flifo_session_new(admission, NULL));
  GIVES(FLIFO_INVALID, flifo_canceller_new(session, NULL));
  GIVES(FLIFO_INVALID, flifo_snapshot(admission, NULL, sizeof snapshot));
  GIVES(FLIFO_INVALID, flifo_status_text(admission, NULL, 1, &length));
  GIVES(FLIFO_INVALID, flifo_policy_parse(NULL, &policy));
  GIVES(FLIFO_INVALID, flifo_policy_parse("fifo", NULL));
  /* Null pointers that are allowed. */
  GIVES(FLIFO_OK, flifo_status_text(admission, NULL, 0, &length));
  TRUE(length > sizeof text);
  memset(text, 'x', sizeof text);
  GIVES(FLIFO_OK, flifo_status_text(admission, text, sizeof text, NULL));
  TRUE(strlen(text) == sizeof text - 1);
  GIVES(FLIFO_OK, flifo_session_free(session));
  GIVES(FLIFO_OK, flifo_admission_free(admission));
}

static void impossible_values(void)
{
  flifo_admission_t admission = one_slot();
  flifo_session_t session;
  flifo_config_t config, now;
  int policy = -1;

  GIVES(FLIFO_OK, flifo_session_new(admission, &session));
  GIVES(FLIFO_INVALID, flifo_policy_parse("fliffo", &policy));
  TRUE(strstr(flifo_last_error(), "unknown policy 'fliffo'") != NULL);
  GIVES(FLIFO_INVALID, flifo_policy_parse("\xff", &policy));
  GIVES(FLIFO_OK, flifo_policy_parse("flifo", &policy));
  TRUE(policy == FLIFO_POLICY_FLIFO && strcmp(flifo_policy_name(policy), "flifo") == 0);
  TRUE(flifo_policy_name(99) == NULL && flifo_wait_kind_name(-1) == NULL);
  TRUE(strcmp(flifo_wait_kind_name(FLIFO_WAIT_ROW_LOCK), "row lock") == 0);
  GIVES(FLIFO_INVALID, flifo_abi_check(FLIFO_ABI_VERSION + 1));
  GIVES(FLIFO_OK, flifo_abi_check(FLIFO_ABI_VERSION));

  GIVES(FLIFO_OK, flifo_admission_config(admission, &config, sizeof config));
  TRUE(config.struct_size == sizeof config && config.thread_concurrency == 1);
  config.thread_concurrency = 1024;
  GIVES(FLIFO_INVALID, flifo_reconfigure(admission, &config));
  TRUE(strcmp(flifo_last_error(), "thread_concurrency 1024 is too high: at most 1023") == 0);
  memset(&now, 0xff, sizeof now);
  GIVES(FLIFO_INVALID, flifo_reconfigure(admission, &now));
  GIVES(FLIFO_OK, flifo_admission_config(admission, &now, sizeof now));
  TRUE(now.thread_concurrency == 1);
  config.thread_concurrency = 3;
  config.reserve_slots = 2;
  GIVES(FLIFO_INVALID, flifo_reconfigure(admission, &config));
  TRUE(strcmp(flifo_last_error(), "reserve_slots must be 0 or 1, not 2") == 0);
  config.reserve_slots = 1;
  config.adaptive = 2;
  GIVES(FLIFO_INVALID, flifo_reconfigure(admission, &config));
  config.adaptive = 0;
  GIVES(FLIFO_OK, flifo_reconfigure(admission, &config));
  GIVES(FLIFO_OK, flifo_admission_config(admission, &now, sizeof now));
  TRUE(memcmp(&now, &config, sizeof now) == 0);
  GIVES(FLIFO_INVALID, flifo_set_thread_concurrency(admission, 1024));
  GIVES(FLIFO_OK, flifo_set_thread_concurrency(admission, 2));

  GIVES(FLIFO_INVALID, flifo_wait_begin(session, FLIFO_WAIT_KINDS));
  GIVES(FLIFO_INVALID, flifo_wait_end(session, -1));
  GIVES(FLIFO_INVALID, flifo_set_class(session, 2));
  GIVES(FLIFO_OK, flifo_session_free(session));
  GIVES(FLIFO_OK, flifo_admission_free(admission));
}

static void out_of_order(void)
{
  flifo_admission_t admission = one_slot();
  flifo_session_t session, second;

  GIVES(FLIFO_OK, flifo_session_new(admission, &session));
  GIVES(FLIFO_OK, flifo_session_new(admission, &second));
  GIVES(FLIFO_NOT_RUNNING, flifo_exit(session));
  GIVES(FLIFO_NOT_RUNNING, flifo_is_running(session));
  GIVES(FLIFO_NO_WAIT, flifo_wait_end(session, FLIFO_WAIT_DISK));
  GIVES(FLIFO_OK, flifo_enter(session));
  GIVES(FLIFO_OK, flifo_is_running(session));
  GIVES(FLIFO_NO_SLOT, flifo_try_enter(second));
  GIVES(FLIFO_TIMEOUT, flifo_enter_until(second, 0));
  GIVES(FLIFO_TIMEOUT, flifo_enter_until(second, 1000000));
  GIVES(FLIFO_OK, flifo_exit(session));
  GIVES(FLIFO_NOT_RUNNING, flifo_exit(session));
  GIVES(FLIFO_NOT_RUNNING, flifo_exit_ending_slice(session));
  GIVES(FLIFO_OK, flifo_enter(session));
  GIVES(FLIFO_OK, flifo_exit_ending_slice(session));
  GIVES(FLIFO_OK, flifo_enter_until(session, UINT64_MAX));

  /* The statement is killed in its wait: it exits, and the end of the wait acquires no slot. */
  GIVES(FLIFO_NO_WAIT, flifo_mark_wait_long(session));
  GIVES(FLIFO_OK, flifo_wait_begin(session, FLIFO_WAIT_ROW_LOCK));
  GIVES(FLIFO_OK, flifo_mark_wait_long(session));
  GIVES(FLIFO_OK, flifo_mark_wait_long(session));
  GIVES(FLIFO_NOT_RUNNING, flifo_is_running(session));
  GIVES(FLIFO_OK, flifo_exit(session));
  GIVES(FLIFO_NOT_RUNNING, flifo_exit(session));
  GIVES(FLIFO_OK, flifo_wait_end(session, FLIFO_WAIT_ROW_LOCK));
  GIVES(FLIFO_NOT_RUNNING, flifo_is_running(session));
  GIVES(FLIFO_NO_WAIT, flifo_wait_end(session, FLIFO_WAIT_ROW_LOCK));

  /* Sessions outlive the handle of their scheduler. */
  GIVES(FLIFO_OK, flifo_admission_free(admission));
  GIVES(FLIFO_OK, flifo_enter(session));
  GIVES(FLIFO_OK, flifo_exit(session));
  GIVES(FLIFO_OK, flifo_session_free(session));
  GIVES(FLIFO_OK, flifo_session_free(second));
}

static void dead_handles(void)
{
  flifo_admission_t admission = one_slot(), wild_admission;
  flifo_session_t session, next, wild;
  flifo_canceller_t canceller;
  flifo_snapshot_t snapshot;
  flifo_config_t config;
  uint64_t bits = UINT64_C(0x9E3779B97F4A7C15);
  int n;

  GIVES(FLIFO_INVALID, flifo_enter(no_session));
  GIVES(FLIFO_INVALID, flifo_session_free(no_session));
  GIVES(FLIFO_INVALID, flifo_cancel(no_canceller));
  GIVES(FLIFO_INVALID, flifo_canceller_free(no_canceller));
  GIVES(FLIFO_INVALID, flifo_admission_free(no_admission));
  GIVES(FLIFO_INVALID, flifo_step(no_admission));

  GIVES(FLIFO_OK, flifo_session_new(admission, &session));
  GIVES(FLIFO_OK, flifo_canceller_new(session, &canceller));
  GIVES(FLIFO_OK, flifo_enter(session));
  GIVES(FLIFO_OK, flifo_session_free(session));
  GIVES(FLIFO_DEAD_HANDLE, flifo_session_free(session));
  GIVES(FLIFO_OK, flifo_session_new(admission, &next)); /* In the cell of the freed session. */
  GIVES(FLIFO_DEAD_HANDLE, flifo_enter(session));
  GIVES(FLIFO_DEAD_HANDLE, flifo_enter_until(session, 1));
  GIVES(FLIFO_DEAD_HANDLE, flifo_try_enter(session));
  GIVES(FLIFO_DEAD_HANDLE, flifo_enter_forced(session));
  GIVES(FLIFO_DEAD_HANDLE, flifo_exit(session));
  GIVES(FLIFO_DEAD_HANDLE, flifo_exit_ending_slice(session));
  GIVES(FLIFO_DEAD_HANDLE, flifo_mark_wait_long(session));
  GIVES(FLIFO_DEAD_HANDLE, flifo_is_running(session));
  GIVES(FLIFO_DEAD_HANDLE, flifo_wait_begin(session, FLIFO_WAIT_DISK));
  GIVES(FLIFO_DEAD_HANDLE, flifo_wait_end(session, FLIFO_WAIT_DISK));
  GIVES(FLIFO_DEAD_HANDLE, flifo_set_class(session, FLIFO_CLASS_FIRST));
  GIVES(FLIFO_DEAD_HANDLE, flifo_set_in_transaction(session, 1));
  GIVES(FLIFO_DEAD_HANDLE, flifo_forget_cancel(session));
  GIVES(FLIFO_DEAD_HANDLE, flifo_session_free(session));
  GIVES(FLIFO_OK, flifo_enter(next)); /* The slot of the freed session was released. */
  GIVES(FLIFO_OK, flifo_session_free(next));

  GIVES(FLIFO_OK, flifo_cancel(canceller)); /* The session is gone. */
  GIVES(FLIFO_OK, flifo_canceller_free(canceller));
  GIVES(FLIFO_DEAD_HANDLE, flifo_canceller_free(canceller));
  GIVES(FLIFO_DEAD_HANDLE, flifo_cancel(canceller));
  GIVES(FLIFO_DEAD_HANDLE, flifo_canceller_new(session, &canceller));

  GIVES(FLIFO_OK, flifo_step(admission));
  GIVES(FLIFO_OK, flifo_admission_free(admission));
  GIVES(FLIFO_DEAD_HANDLE, flifo_admission_free(admission));
  GIVES(FLIFO_DEAD_HANDLE, flifo_session_new(admission, &session));
  GIVES(FLIFO_DEAD_HANDLE, flifo_snapshot(admission, &snapshot, sizeof snapshot));
  GIVES(FLIFO_DEAD_HANDLE, flifo_admission_config(admission, &config, sizeof config));
  GIVES(FLIFO_DEAD_HANDLE, flifo_set_thread_concurrency(admission, 1));
  GIVES(FLIFO_DEAD_HANDLE, flifo_step(admission));

  for (n = 0; n < 100000; n++) { /* Any 64 bits are accepted. */
    bits = bits * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    wild.id = bits;
    wild_admission.id = bits;
    TRUE(flifo_enter(wild) == FLIFO_DEAD_HANDLE && flifo_session_free(wild) == FLIFO_DEAD_HANDLE);
    TRUE(flifo_admission_free(wild_admission) == FLIFO_DEAD_HANDLE);
  }
}

static void *queue(void *session)
{
  return (void *)(intptr_t)flifo_enter(*(flifo_session_t *)session);
}

static void until_queued(flifo_admission_t admission)
{
  flifo_snapshot_t snapshot;
  do {
    sched_yield();
    GIVES(FLIFO_OK, flifo_snapshot(admission, &snapshot, sizeof snapshot));
  } while (snapshot.queued == 0);
}

static void two_threads(void)
{
  flifo_admission_t admission = one_slot();
  flifo_session_t holder, queued;
  flifo_canceller_t canceller;
  flifo_config_t config;
  pthread_t thread;
  void *result;

  GIVES(FLIFO_OK, flifo_session_new(admission, &holder));
  GIVES(FLIFO_OK, flifo_session_new(admission, &queued));
  GIVES(FLIFO_OK, flifo_canceller_new(queued, &canceller));
  GIVES(FLIFO_OK, flifo_enter(holder));
  TRUE(pthread_create(&thread, NULL, queue, &queued) == 0);
  until_queued(admission);

  GIVES(FLIFO_IN_USE, flifo_session_free(queued));
  GIVES(FLIFO_IN_USE, flifo_enter(queued));
  GIVES(FLIFO_IN_USE, flifo_exit(queued));
  GIVES(FLIFO_IN_USE, flifo_is_running(queued));
  GIVES(FLIFO_IN_USE, flifo_wait_begin(queued, FLIFO_WAIT_USER));
  GIVES(FLIFO_IN_USE, flifo_set_class(queued, FLIFO_CLASS_FIRST));
  GIVES(FLIFO_IN_USE, flifo_set_in_transaction(queued, 1));
  GIVES(FLIFO_IN_USE, flifo_try_enter(queued));
  GIVES(FLIFO_IN_USE, flifo_enter_forced(queued));
  GIVES(FLIFO_OK, flifo_admission_config(admission, &config, sizeof config));
  config.queue_limit = 1;
  GIVES(FLIFO_OK, flifo_reconfigure(admission, &config));
  {
    flifo_session_t third;
    GIVES(FLIFO_OK, flifo_session_new(admission, &third));
    GIVES(FLIFO_QUEUE_FULL, flifo_enter(third));
    GIVES(FLIFO_OK, flifo_session_free(third));
  }
  GIVES(FLIFO_OK, flifo_cancel(canceller));
  TRUE(pthread_join(thread, &result) == 0);
  TRUE((intptr_t)result == FLIFO_CANCELLED);
  GIVES(FLIFO_OK, flifo_exit(holder));

  /* A session may move: this thread uses it now, and another thread afterwards. */
  GIVES(FLIFO_OK, flifo_enter(queued));
  GIVES(FLIFO_OK, flifo_exit(queued));
  TRUE(pthread_create(&thread, NULL, queue, &queued) == 0);
  TRUE(pthread_join(thread, &result) == 0);
  TRUE((intptr_t)result == FLIFO_OK);
  GIVES(FLIFO_OK, flifo_exit(queued));

  GIVES(FLIFO_OK, flifo_session_free(holder)); /* Owned by this thread. */
  GIVES(FLIFO_OK, flifo_session_free(queued)); /* Owned by none. */
  GIVES(FLIFO_OK, flifo_canceller_free(canceller));
  GIVES(FLIFO_OK, flifo_admission_free(admission));
}

static void *enter_and_exit(void *session)
{
  flifo_status_t status = flifo_enter(*(flifo_session_t *)session);

  return (void *)(intptr_t)(status == FLIFO_OK ? flifo_exit(*(flifo_session_t *)session) : status);
}

/* A session that does not exit: its slot is reclaimed for the next, and its exit releases none. */
static void slot_is_reclaimed(void)
{
  flifo_admission_t admission = one_slot();
  flifo_session_t holder, queued;
  flifo_config_t config;
  flifo_snapshot_t snapshot;
  pthread_t thread;
  void *result;

  GIVES(FLIFO_OK, flifo_admission_config(admission, &config, sizeof config));
  config.stall_limit_ns = 20000000;
  GIVES(FLIFO_OK, flifo_reconfigure(admission, &config));
  GIVES(FLIFO_OK, flifo_session_new(admission, &holder));
  GIVES(FLIFO_OK, flifo_session_new(admission, &queued));
  GIVES(FLIFO_OK, flifo_enter(holder));
  TRUE(pthread_create(&thread, NULL, enter_and_exit, &queued) == 0);
  TRUE(pthread_join(thread, &result) == 0);
  TRUE((intptr_t)result == FLIFO_OK);
  GIVES(FLIFO_OK, flifo_is_running(holder));
  GIVES(FLIFO_OK, flifo_snapshot(admission, &snapshot, sizeof snapshot));
  TRUE(snapshot.slots_reclaimed == 1 && snapshot.stalls_broken == 0 && snapshot.running == 0);
  GIVES(FLIFO_OK, flifo_exit(holder));
  GIVES(FLIFO_NOT_RUNNING, flifo_exit(holder));
  GIVES(FLIFO_OK, flifo_snapshot(admission, &snapshot, sizeof snapshot));
  TRUE(snapshot.running == 0);
  GIVES(FLIFO_OK, flifo_session_free(holder));
  GIVES(FLIFO_OK, flifo_session_free(queued));
  GIVES(FLIFO_OK, flifo_admission_free(admission));
}

static void too_many(void)
{
  static flifo_session_t sessions[130815];
  const int most = (int)(sizeof sessions / sizeof *sessions);
  flifo_admission_t admission = one_slot();
  flifo_session_t one_more;
  int n;

  for (n = 0; n < most; n++)
    GIVES(FLIFO_OK, flifo_session_new(admission, &sessions[n]));
  GIVES(FLIFO_TOO_MANY, flifo_session_new(admission, &one_more));
  TRUE(one_more.id == 0);
  GIVES(FLIFO_OK, flifo_session_free(sessions[7]));
  GIVES(FLIFO_OK, flifo_session_new(admission, &sessions[7]));
  for (n = 0; n < most; n++)
    GIVES(FLIFO_OK, flifo_session_free(sessions[n]));
  GIVES(FLIFO_OK, flifo_admission_free(admission));
}

int main(void)
{
  null_pointers();
  impossible_values();
  out_of_order();
  dead_handles();
  two_threads();
  slot_is_reclaimed();
  too_many();
  return wrong > 100 ? 100 : wrong;
}
