/*
 * What an entry costs through C when nobody disputes it; `make cost` runs it. Best of many short rounds, ns.
 */
#include <flifo.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 200
#define CALLS 20000

static flifo_session_t session;

static double now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void ticket(void)
{
  flifo_enter(session);
}

static void enter_exit(void)
{
  flifo_enter(session);
  flifo_exit(session);
}

static void is_inside(void)
{
  flifo_is_inside(session);
}

static void measure(const char *name, void (*call)(void))
{
  double best = 1e18;
  int round, n;
  for (round = 0; round < ROUNDS; round++) {
    double begin = now_ns(), ns;
    for (n = 0; n < CALLS; n++)
      call();
    ns = (now_ns() - begin) / CALLS;
    best = ns < best ? ns : best;
  }
  printf("%-28s %6.2f ns\n", name, best);
}

static void *from_another_thread(void *argument)
{
  (void)argument;
  flifo_exit(session);
  measure("enter + exit, after a move", enter_exit);
  flifo_enter(session);
  measure("ticket, after a move", ticket);
  return NULL;
}

int main(void)
{
  flifo_admission_t admission;
  flifo_config_t config;
  pthread_t thread;

  flifo_config_init(&config, sizeof config);
  config.thread_concurrency = 4;
  config.concurrency_tickets = 0xffffffff;
  if (flifo_admission_new(&config, &admission) != FLIFO_OK || flifo_session_new(admission, &session) != FLIFO_OK)
    return 1;
  measure("is_inside", is_inside);
  measure("enter + exit", enter_exit);
  flifo_enter(session);
  measure("ticket", ticket);
  if (pthread_create(&thread, NULL, from_another_thread, NULL) != 0)
    return 1;
  pthread_join(thread, NULL);
  return 0;
}
