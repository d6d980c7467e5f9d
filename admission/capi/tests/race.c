/*
 * A data race for `make tsan` to find: with a limit of 2, a slot does not exclude other threads. With any argument the
 * limit is 1 under fifo, a slot acts as a lock, and the program has no race.
 */
#include <flifo.h>

#include <pthread.h>
#include <stdlib.h>

static flifo_admission_t admission;
static int shared;
static pthread_barrier_t both_running;
static int ordered;

static void *work(void *argument)
{
  flifo_session_t session;
  int n;

  (void)argument;
  if (flifo_session_new(admission, &session) != FLIFO_OK)
    exit(1);
  for (n = 0; n < 2000; n++) {
    if (flifo_enter(session) != FLIFO_OK)
      exit(1);
    if (n == 0 && !ordered)
      pthread_barrier_wait(&both_running); /* The next line races, whatever the CPUs do. */
    shared++;
    if (flifo_exit(session) != FLIFO_OK)
      exit(1);
  }
  flifo_session_free(session);
  return NULL;
}

int main(int arguments, char **argument)
{
  pthread_t threads[2];
  flifo_config_t config;
  int n;

  (void)argument;
  ordered = arguments > 1;
  pthread_barrier_init(&both_running, NULL, 2);
  flifo_config_init(&config, sizeof config);
  config.policy = FLIFO_POLICY_FIFO;
  config.thread_concurrency = ordered ? 1 : 2;
  config.stall_limit_ns = 0;
  if (flifo_admission_new(&config, &admission) != FLIFO_OK)
    return 1;
  for (n = 0; n < 2; n++)
    if (pthread_create(&threads[n], NULL, work, NULL) != 0)
      return 1;
  for (n = 0; n < 2; n++)
    pthread_join(threads[n], NULL);
  return shared == 4000 ? 0 : 1;
}
