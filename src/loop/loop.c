#include "loop/loop.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/fdio.h"
#include "base/memory.h"

enum {
    EVENTS_PER_ROUND = 64,
    NOT_ARMED = -1
};

struct source {
    struct loop *loop;
    struct source *next, *previous;
    int fd;
    uint32_t events;          /* that it is watched for */
    source_callback callback; /* NULL: removed, freed at the end of the round */
    void *user;
};

struct timer {
    struct loop *loop;
    struct timer *next, *previous; /* of all timers of the loop */
    uint64_t due;
    int position; /* in the heap, NOT_ARMED if not in it */
    timer_callback callback;
    void *user;
};

struct loop {
    int epoll;
    int signals;
    bool stopping;
    int result;
    uint64_t wake_at; /* 0: no wish */
    struct source *sources;
    struct source *removed; /* linked by next */
    struct timer *timers;
    struct timer **heap;
    int armed;
    int heap_capacity;
    struct source *signal_source;
    signal_callback on_signal;
    void *signal_user;
    idle_callback before_wait;
    void *before_wait_user;
};

struct loop *loop_new(void)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0)
        return NULL;
    struct loop *loop = must_alloc(sizeof *loop);
    loop->epoll = epoll;
    loop->signals = -1;
    return loop;
}

static void free_removed(struct loop *loop)
{
    while (loop->removed) {
        struct source *source = loop->removed;
        loop->removed = source->next;
        free(source);
    }
}

struct loop *loop_free(struct loop *loop)
{
    if (!loop)
        return NULL;
    while (loop->sources)
        source_remove(loop->sources);
    free_removed(loop);
    while (loop->timers)
        timer_remove(loop->timers);
    free(loop->heap);
    close_fd(loop->signals);
    close_fd(loop->epoll);
    free(loop);
    return NULL;
}

struct source *source_add(struct loop *loop, int fd, uint32_t events, source_callback callback,
                          void *user)
{
    struct source *source = must_alloc(sizeof *source);
    *source = (struct source){
        .loop = loop, .fd = fd, .events = events, .callback = callback, .user = user};
    struct epoll_event event = {.events = events, .data.ptr = source};
    if (epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        free(source);
        return NULL;
    }
    source->next = loop->sources;
    if (loop->sources)
        loop->sources->previous = source;
    loop->sources = source;
    return source;
}

int source_set_events(struct source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};
    if (events == source->events)
        return 0;
    if (epoll_ctl(source->loop->epoll, EPOLL_CTL_MOD, source->fd, &event) < 0)
        return -errno;
    source->events = events;
    return 0;
}

/* The memory stays until the round is over: an event for it may be waiting in the same batch. */
struct source *source_remove(struct source *source)
{
    if (!source)
        return NULL;
    struct loop *loop = source->loop;
    (void)epoll_ctl(loop->epoll, EPOLL_CTL_DEL, source->fd, NULL);
    if (source->previous)
        source->previous->next = source->next;
    else
        loop->sources = source->next;
    if (source->next)
        source->next->previous = source->previous;
    source->callback = NULL;
    source->next = loop->removed;
    loop->removed = source;
    return NULL;
}

/* --- timers: a binary heap by due time ----------------------------------------------------------
 */

static void heap_put(struct loop *loop, int position, struct timer *timer)
{
    loop->heap[position] = timer;
    timer->position = position;
}

static void heap_up(struct loop *loop, int position)
{
    struct timer *timer = loop->heap[position];
    while (position > 0 && loop->heap[(position - 1) / 2]->due > timer->due) {
        heap_put(loop, position, loop->heap[(position - 1) / 2]);
        position = (position - 1) / 2;
    }
    heap_put(loop, position, timer);
}

static void heap_down(struct loop *loop, int position)
{
    struct timer *timer = loop->heap[position];
    for (;;) {
        int child = 2 * position + 1;
        if (child >= loop->armed)
            break;
        if (child + 1 < loop->armed && loop->heap[child + 1]->due < loop->heap[child]->due)
            child++;
        if (loop->heap[child]->due >= timer->due)
            break;
        heap_put(loop, position, loop->heap[child]);
        position = child;
    }
    heap_put(loop, position, timer);
}

struct timer *timer_add(struct loop *loop, timer_callback callback, void *user)
{
    struct timer *timer = must_alloc(sizeof *timer);
    *timer =
        (struct timer){.loop = loop, .position = NOT_ARMED, .callback = callback, .user = user};
    timer->next = loop->timers;
    if (loop->timers)
        loop->timers->previous = timer;
    loop->timers = timer;
    return timer;
}

void timer_disarm(struct timer *timer)
{
    struct loop *loop = timer->loop;
    int position = timer->position;
    if (position == NOT_ARMED)
        return;
    timer->position = NOT_ARMED;
    struct timer *last = loop->heap[--loop->armed];
    if (last == timer)
        return;
    heap_put(loop, position, last);
    heap_up(loop, position);
    heap_down(loop, last->position);
}

void timer_arm(struct timer *timer, uint64_t milliseconds)
{
    struct loop *loop = timer->loop;
    timer_disarm(timer);
    if (loop->armed == loop->heap_capacity) {
        loop->heap_capacity = loop->heap_capacity ? loop->heap_capacity * 2 : 16;
        loop->heap = realloc(loop->heap, (size_t)loop->heap_capacity * sizeof loop->heap[0]);
        husk_assert(loop->heap != NULL);
    }
    timer->due = now_ms() + milliseconds;
    heap_put(loop, loop->armed++, timer);
    heap_up(loop, timer->position);
}

bool timer_armed(const struct timer *timer)
{
    return timer->position != NOT_ARMED;
}

struct timer *timer_remove(struct timer *timer)
{
    if (!timer)
        return NULL;
    struct loop *loop = timer->loop;
    timer_disarm(timer);
    if (timer->previous)
        timer->previous->next = timer->next;
    else
        loop->timers = timer->next;
    if (timer->next)
        timer->next->previous = timer->previous;
    free(timer);
    return NULL;
}

/* A callback may arm and remove any timer, so the heap is looked at anew for each. */
static void run_timers(struct loop *loop)
{
    uint64_t now = now_ms();
    while (!loop->stopping && loop->armed > 0 && loop->heap[0]->due <= now) {
        struct timer *timer = loop->heap[0];
        timer_disarm(timer);
        timer->callback(timer, timer->user);
    }
}

/* --- signals ------------------------------------------------------------------------------------
 */

static void signal_ready(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct loop *loop = user;
    struct signalfd_siginfo info;
    while (read_some(loop->signals, &info, sizeof info) == sizeof info)
        loop->on_signal(&info, loop->signal_user);
}

int loop_signals(struct loop *loop, const int *signals, signal_callback callback, void *user)
{
    husk_assert(loop->signals < 0);
    sigset_t set;
    sigemptyset(&set);
    for (; *signals; signals++)
        sigaddset(&set, *signals);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return -errno;
    loop->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (loop->signals < 0)
        return -errno;
    loop->on_signal = callback;
    loop->signal_user = user;
    loop->signal_source = source_add(loop, loop->signals, EPOLLIN, signal_ready, loop);
    return loop->signal_source ? 0 : -errno;
}

/* --- running ------------------------------------------------------------------------------------
 */

void loop_before_wait(struct loop *loop, idle_callback callback, void *user)
{
    loop->before_wait = callback;
    loop->before_wait_user = user;
}

void loop_wake_in(struct loop *loop, uint64_t milliseconds)
{
    uint64_t at = now_ms() + milliseconds;
    if (!loop->wake_at || at < loop->wake_at)
        loop->wake_at = at;
}

static int wait_milliseconds(struct loop *loop)
{
    uint64_t until = loop->wake_at;
    loop->wake_at = 0;
    if (loop->armed > 0 && (!until || loop->heap[0]->due < until))
        until = loop->heap[0]->due;
    if (!until)
        return -1;
    uint64_t now = now_ms();
    if (until <= now)
        return 0;
    return until - now > 3600 * 1000 ? 3600 * 1000 : (int)(until - now);
}

void loop_stop(struct loop *loop, int result)
{
    loop->stopping = true;
    loop->result = result;
}

int loop_run(struct loop *loop)
{
    struct epoll_event events[EVENTS_PER_ROUND];
    while (!loop->stopping) {
        if (loop->before_wait)
            loop->before_wait(loop->before_wait_user);
        if (loop->stopping)
            break;
        int count = epoll_wait(loop->epoll, events, EVENTS_PER_ROUND, wait_milliseconds(loop));
        if (count < 0 && errno != EINTR)
            return -errno;
        for (int i = 0; i < count && !loop->stopping; i++) {
            struct source *source = events[i].data.ptr;
            if (source->callback)
                source->callback(source, events[i].events, source->user);
        }
        run_timers(loop);
        free_removed(loop);
    }
    loop->stopping = false;
    return loop->result;
}
