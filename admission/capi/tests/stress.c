/*
 * Sessions move between threads, several threads use one at once, and threads cancel and free them at any time. The
 * settings change and slots are reclaimed in between. Every call must return one of its statuses, and at the end no slot
 * may be out. Meant for ThreadSanitizer (`make tsan`), and short enough to run without.
 */
#include <flifo.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS 12
#define ROUNDS 400
#define SHARED 4

static flifo_admission_t admission;

/* Sessions that all threads use without a lock; only replacing a freed session takes the lock. */
static struct {
  pthread_mutex_t lock;
  flifo_session_t session;
  flifo_canceller_t canceller;
} shared[SHARED];

/* One session for each thread. */
static flifo_session_t own[THREADS];

static void fail(const char *what, flifo_status_t status)
{
  fprintf(stderr, "stress: %s gave %d: %s (%s)\n", what, (int)status, flifo_error_message((int)status),
          flifo_last_error());
  exit(1);
}

/* A call on a session that other threads use, free and cancel at the same time. */
static void may(flifo_status_t status, const char *what)
{
  switch (status) {
  case FLIFO_OK:
  case FLIFO_TIMEOUT:
  case FLIFO_CANCELLED:
  case FLIFO_NO_SLOT:
  case FLIFO_NOT_RUNNING:
  case FLIFO_NO_WAIT:
  case FLIFO_DEAD_HANDLE:
  case FLIFO_IN_USE:
    break;
  default:
    fail(what, status);
  }
}

static void must(flifo_status_t status, const char *what)
{
  if (status != FLIFO_OK)
    fail(what, status);
}

static void pause_us(long us)
{
  struct timespec time;

  time.tv_sec = 0;
  time.tv_nsec = us * 1000;
  nanosleep(&time, NULL);
}

static void new_shared(int n)
{
  must(flifo_session_new(admission, &shared[n].session), "session_new");
  must(flifo_canceller_new(shared[n].session, &shared[n].canceller), "canceller_new");
}

static void one_shared(int n, unsigned random)
{
  flifo_session_t session;
  flifo_canceller_t canceller;
  flifo_status_t status;

  pthread_mutex_lock(&shared[n].lock);
  session = shared[n].session;
  canceller = shared[n].canceller;
  pthread_mutex_unlock(&shared[n].lock);

  switch (random % 9) {
  case 0:
    may(flifo_cancel(canceller), "cancel");
    break;
  case 1:
    status = flifo_session_free(session);
    may(status, "session_free");
    if (status == FLIFO_OK) { /* This thread has freed it. */
      must(flifo_canceller_free(canceller), "canceller_free");
      pthread_mutex_lock(&shared[n].lock);
      new_shared(n);
      pthread_mutex_unlock(&shared[n].lock);
    }
    break;
  case 2:
    may(flifo_wait_begin(session, (int)(random / 8 % FLIFO_WAIT_KINDS)), "wait_begin");
    if (random / 64 % 2) {
      may(flifo_mark_wait_long(session), "mark_wait_long");
    }
    break;
  case 3:
    may(flifo_wait_end(session, FLIFO_WAIT_USER), "wait_end");
    break;
  case 4:
    may(flifo_enter_forced(session), "enter_forced");
    may(flifo_exit_ending_slice(session), "exit_ending_slice");
    break;
  case 5:
    may(flifo_forget_cancel(session), "forget_cancel");
    break;
  default:
    may(flifo_enter_until(session, 200000), "enter_until");
    may(flifo_exit(session), "exit");
  }
}

static void *work(void *argument)
{
  unsigned random = (unsigned)(size_t)argument * 2654435761u + 1;
  flifo_session_t mine = own[(size_t)argument];
  int n;

  for (n = 0; n < ROUNDS; n++) {
    random = random * 1664525u + 1013904223u;
    must(flifo_enter(mine), "enter");
    must(flifo_enter(mine), "ticket");
    if (n % 3 == 0) {
      must(flifo_wait_begin(mine, FLIFO_WAIT_ROW_LOCK), "wait_begin");
      must(flifo_wait_end_may_queue(mine, FLIFO_WAIT_ROW_LOCK), "wait_end_may_queue");
    }
    must(flifo_set_class(mine, n % 2 ? FLIFO_CLASS_FIRST : FLIFO_CLASS_NORMAL), "set_class");
    must(flifo_set_in_transaction(mine, n % 5), "set_in_transaction");
    must(flifo_exit(mine), "exit");
    if (flifo_try_enter(mine) == FLIFO_OK)
      must(flifo_exit(mine), "exit after try_enter");
    if (n % 7 == 0) { /* Long enough for the stall limit: its slot is reclaimed if others queue. */
      must(flifo_enter(mine), "enter");
      pause_us(3000);
      must(flifo_exit_ending_slice(mine), "exit_ending_slice");
    }
    one_shared((int)(random >> 16) % SHARED, random >> 8);
  }
  return NULL;
}

int main(void)
{
  pthread_t threads[THREADS];
  flifo_config_t config;
  flifo_snapshot_t snapshot;
  int n;

  must(flifo_config_init(&config, sizeof config), "config_init");
  config.thread_concurrency = 3;
  config.concurrency_tickets = 3;
  config.lock_waiters_max = 2;
  config.stall_limit_ns = 2000000; /* Threads leave shared sessions running. */
  must(flifo_admission_new(&config, &admission), "admission_new");
  for (n = 0; n < SHARED; n++) {
    pthread_mutex_init(&shared[n].lock, NULL);
    new_shared(n);
  }
  for (n = 0; n < THREADS; n++)
    must(flifo_session_new(admission, &own[n]), "session_new");
  for (n = 0; n < THREADS; n++)
    if (pthread_create(&threads[n], NULL, work, (void *)(size_t)n) != 0)
      return 1;
  for (n = 0; n < 60; n++) {
    static const int policies[] = {FLIFO_POLICY_FLIFO, FLIFO_POLICY_QUANTUM, FLIFO_POLICY_FIFO, FLIFO_POLICY_NONE};

    config.policy = policies[n % 4];
    config.thread_concurrency = 1 + (uint32_t)n % 5;
    config.reserve_slots = (uint32_t)n / 4 % 2;
    must(flifo_reconfigure(admission, &config), "reconfigure");
    must(flifo_snapshot(admission, &snapshot, sizeof snapshot), "snapshot");
    pause_us(1000);
  }
  for (n = 0; n < THREADS; n++) {
    pthread_join(threads[n], NULL);
    must(flifo_session_free(own[n]), "session_free");
  }
  for (n = 0; n < SHARED; n++) {
    must(flifo_session_free(shared[n].session), "session_free");
    must(flifo_canceller_free(shared[n].canceller), "canceller_free");
  }
  must(flifo_snapshot(admission, &snapshot, sizeof snapshot), "snapshot");
  must(flifo_admission_free(admission), "admission_free");
  if (snapshot.running != 0 || snapshot.queued != 0 || snapshot.pending != 0 || snapshot.lock_waiters != 0
      || snapshot.disk_waits != 0) {
    fprintf(stderr, "stress: left: running %u, queued %u, pending %u, lock waiters %u, disk waits %u\n",
            snapshot.running, snapshot.queued, snapshot.pending, snapshot.lock_waiters, snapshot.disk_waits);
    return 1;
  }
  return 0;
}
