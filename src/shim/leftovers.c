#include "shim/leftovers.h"

#include <errno.h>
#include <stdlib.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "husk/limits.h"

enum {
    READ_BYTES = 64 * KIB,
    PAUSE_MILLISECONDS = 50 /* between two reads of one pipe */
};

struct leftover {
    struct leftovers *all;
    struct leftover *next;
    int fd;
    struct source *source; /* NULL while it pauses */
};

struct leftovers {
    struct loop *loop;
    struct leftover *first; /* the newest */
    size_t count;
    struct timer *pause; /* armed while some pause */
};

static void remove_leftover(struct leftover *leftover)
{
    struct leftover **link = &leftover->all->first;
    while (*link != leftover)
        link = &(*link)->next;
    *link = leftover->next;
    leftover->all->count--;
    source_remove(leftover->source);
    (void)close_fd(leftover->fd);
    free(leftover);
}

static void readable(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct leftover *leftover = user;
    char bytes[READ_BYTES];
    ssize_t n = read_some(leftover->fd, bytes, sizeof bytes);
    if (n == 0 || (n < 0 && n != -EAGAIN))
        return remove_leftover(leftover);
    leftover->source = source_remove(leftover->source);
    if (!timer_armed(leftover->all->pause))
        timer_arm(leftover->all->pause, PAUSE_MILLISECONDS);
}

static void pause_expired(struct timer *timer _unused_, void *user)
{
    struct leftovers *leftovers = user;
    struct leftover *next;
    for (struct leftover *leftover = leftovers->first; leftover; leftover = next) {
        next = leftover->next;
        if (!leftover->source)
            leftover->source =
                source_add(leftovers->loop, leftover->fd, EPOLLIN, readable, leftover);
        if (!leftover->source)
            remove_leftover(leftover);
    }
}

struct leftovers *leftovers_new(struct loop *loop)
{
    struct leftovers *leftovers = must_alloc(sizeof *leftovers);
    leftovers->loop = loop;
    leftovers->pause = timer_add(loop, pause_expired, leftovers);
    return leftovers;
}

struct leftovers *leftovers_free(struct leftovers *leftovers)
{
    if (!leftovers)
        return NULL;
    while (leftovers->first)
        remove_leftover(leftovers->first);
    timer_remove(leftovers->pause);
    free(leftovers);
    return NULL;
}

void leftovers_add(struct leftovers *leftovers, int fd)
{
    if (leftovers->count == MAX_LEFTOVERS) {
        struct leftover *oldest = leftovers->first;
        while (oldest->next)
            oldest = oldest->next;
        remove_leftover(oldest);
    }
    struct leftover *leftover = must_alloc(sizeof *leftover);
    *leftover = (struct leftover){.all = leftovers, .next = leftovers->first, .fd = fd};
    leftovers->first = leftover;
    leftovers->count++;
    if (!timer_armed(leftovers->pause))
        timer_arm(leftovers->pause, PAUSE_MILLISECONDS);
}
