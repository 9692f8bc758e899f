/* The event loop: epoll, timers, signals. One thread owns a loop and everything registered on it.
 * Callbacks may add and remove any source or timer, their own included; what was removed is not
 * called again.
 *
 * Life: loop_new → add sources → loop_run (until loop_stop) → loop_free. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

struct signalfd_siginfo;
struct loop;
struct source; /* one watched descriptor; owned by the loop, freed by source_remove or loop_free */
struct timer;  /* one timer, armed or not; owned by the loop, freed by timer_remove or loop_free */

typedef void (*source_callback)(struct source *source, uint32_t events, void *user);
typedef void (*timer_callback)(struct timer *timer, void *user);
typedef void (*signal_callback)(const struct signalfd_siginfo *info, void *user);
typedef void (*idle_callback)(void *user);

struct loop *loop_new(void); /* aborts when memory is out; NULL when epoll cannot be had (errno) */
struct loop *loop_free(
    struct loop *loop);          /* NULL ok, returns NULL; does not close watched descriptors */
int loop_run(struct loop *loop); /* what loop_stop was given, or -errno */
/* loop_run returns as soon as the current callback does; at once if it was not running yet. */
void loop_stop(struct loop *loop, int result);

/* Watch a descriptor for EPOLLIN/EPOLLOUT/EPOLLRDHUP… The loop never closes it. NULL with errno on
 * failure. */
struct source *source_add(struct loop *loop, int fd, uint32_t events, source_callback callback,
                          void *user);
int source_set_events(struct source *source, uint32_t events);
struct source *source_remove(struct source *source); /* NULL ok, returns NULL */

/* A timer starts disarmed. Milliseconds from now; re-arming replaces. It fires once per arming. */
struct timer *timer_add(struct loop *loop, timer_callback callback, void *user);
void timer_arm(struct timer *timer, uint64_t milliseconds);
void timer_disarm(struct timer *timer);
bool timer_armed(const struct timer *timer);
struct timer *timer_remove(struct timer *timer); /* NULL ok, returns NULL */

/* Block these signals (ended by 0) for the process and get them here instead. Once per loop. */
int loop_signals(struct loop *loop, const int *signals, signal_callback callback, void *user);

/* Called before each wait, after all callbacks of a round: for work that was collected during it.
 * One per loop. `loop_wake_in` makes the next wait no longer than that (for libraries with
 * time-outs of their own). */
void loop_before_wait(struct loop *loop, idle_callback callback, void *user);
void loop_wake_in(struct loop *loop, uint64_t milliseconds);
