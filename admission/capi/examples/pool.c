/*
 * A small server: 64 connections, each a thread, share 4 slots. A statement reads rows, waits for a "disk" now and then,
 * and replies. One connection is killed while it queues. At the end the program prints what the scheduler did.
 *
 *     cc pool.c $(pkg-config --cflags --libs flifo) -pthread -o pool && ./pool
 */
#include <flifo.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CONNECTIONS 64
#define STATEMENTS 100
#define ROWS 50

static flifo_admission_t admission;

/* A server handles each status; this program exits. */
static void must(flifo_status_t status, const char *what)
{
  if (status != FLIFO_OK) {
    fprintf(stderr, "pool: %s: %s (%s)\n", what, flifo_error_message((int)status), flifo_last_error());
    exit(1);
  }
}

static void sleep_us(long us)
{
  struct timespec time;
  time.tv_sec = 0;
  time.tv_nsec = us * 1000;
  nanosleep(&time, NULL);
}

static void statement(flifo_session_t session, int n)
{
  int row;

  must(flifo_forget_cancel(session), "forget_cancel"); /* A late KILL of the previous statement. */
  must(flifo_enter(session), "enter");                 /* Queues if four are running. */
  for (row = 0; row < ROWS; row++)
    must(flifo_enter(session), "ticket");
  if (n % 10 == 0) {
    must(flifo_wait_begin(session, FLIFO_WAIT_DISK), "wait_begin"); /* Another thread runs during the wait. */
    sleep_us(50);
    must(flifo_wait_end(session, FLIFO_WAIT_DISK), "wait_end");
  }
  must(flifo_exit(session), "exit"); /* Before the reply is sent. */
}

static void *serve(void *argument)
{
  flifo_session_t session;
  int n;

  (void)argument;
  must(flifo_session_new(admission, &session), "session_new");
  for (n = 0; n < STATEMENTS; n++)
    statement(session, n);
  must(flifo_session_free(session), "session_free");
  return NULL;
}

/* A connection that is killed. */
static void *victim(void *argument)
{
  flifo_session_t session = *(flifo_session_t *)argument;
  flifo_status_t status = flifo_enter(session);

  if (status != FLIFO_CANCELLED) {
    fprintf(stderr, "pool: the victim was admitted: %s\n", flifo_error_message((int)status));
    exit(1);
  }
  return NULL;
}

/* Four statements do not end, so the victim queues. Then it is cancelled. */
static void kill_one(void)
{
  flifo_session_t holders[4], session;
  flifo_canceller_t canceller;
  flifo_snapshot_t snapshot;
  pthread_t thread;
  int n;

  for (n = 0; n < 4; n++) {
    must(flifo_session_new(admission, &holders[n]), "session_new");
    must(flifo_enter(holders[n]), "enter");
  }
  must(flifo_session_new(admission, &session), "session_new");
  must(flifo_canceller_new(session, &canceller), "canceller_new");
  if (pthread_create(&thread, NULL, victim, &session) != 0)
    exit(1);
  do {
    sleep_us(100);
    must(flifo_snapshot(admission, &snapshot, sizeof snapshot), "snapshot");
  } while (snapshot.queued == 0);
  must(flifo_cancel(canceller), "cancel");
  pthread_join(thread, NULL);
  must(flifo_canceller_free(canceller), "canceller_free");
  must(flifo_session_free(session), "session_free");
  for (n = 0; n < 4; n++)
    must(flifo_session_free(holders[n]), "session_free"); /* Exits, too. */
}

int main(void)
{
  pthread_t threads[CONNECTIONS];
  flifo_config_t config;
  flifo_snapshot_t snapshot;
  char text[1024];
  int n;

  must(flifo_abi_check(FLIFO_ABI_VERSION), "abi_check");
  must(flifo_config_init(&config, sizeof config), "config_init");
  config.thread_concurrency = 4;
  config.concurrency_tickets = 20;
  config.stall_limit_ns = 0; /* The four holders of kill_one() must keep their slots. */
  must(flifo_admission_new(&config, &admission), "admission_new");

  kill_one();
  for (n = 0; n < CONNECTIONS; n++)
    if (pthread_create(&threads[n], NULL, serve, NULL) != 0)
      exit(1);
  for (n = 0; n < CONNECTIONS; n++)
    pthread_join(threads[n], NULL);

  must(flifo_snapshot(admission, &snapshot, sizeof snapshot), "snapshot");
  must(flifo_status_text(admission, text, sizeof text, NULL), "status_text");
  printf("libflifo %s\n%s\n", flifo_version(), text);
  printf("disk waits: %llu, median %llu us\n", (unsigned long long)snapshot.wait_times[FLIFO_WAIT_DISK].count,
         (unsigned long long)snapshot.wait_times[FLIFO_WAIT_DISK].p50_ns / 1000);
  must(flifo_admission_free(admission), "admission_free");

  if (snapshot.running != 0 || snapshot.queued != 0 || snapshot.pending != 0 || snapshot.cancelled != 1
      || snapshot.wait_times[FLIFO_WAIT_DISK].count != CONNECTIONS * STATEMENTS / 10) {
    fprintf(stderr, "pool: the snapshot does not match the connections' work\n");
    return 1;
  }
  return 0;
}
