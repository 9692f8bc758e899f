#include "http/peer.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/failure.h"
#include "base/memory.h"
#include "husk/limits.h"
#include "loop/loop.h"

enum {
    LOOK_MS = 5000,
    LOOK_FOR_LEFT_MS = 200
};

struct peer {
    struct peers *peers;
    struct peer *next, *previous;
    int fd;
    struct source *source; /* for its end; NULL: that was seen */
    uint64_t due;          /* 0: never */
    bool has_left;
    void (*left)(void *user);
    void *left_user;
};

struct peers {
    struct loop *loop;
    struct peer *first;
    struct timer *timer;
    bool soon; /* the timer is armed for clients that have left */
};

/* Shutting down is enough: libmicrohttpd sees the end and closes. For a client that has left, shutting down our reading side
 * changes nothing but has libmicrohttpd look at the socket again; more than once, because it may be amid what came before. */
static void look(struct timer *timer, void *user)
{
    struct peers *peers = user;
    uint64_t now = now_ms();
    peers->soon = false;
    for (struct peer *peer = peers->first; peer; peer = peer->next) {
        peers->soon = peers->soon || peer->has_left;
        if (peer->due && peer->due <= now)
            (void)shutdown(peer->fd, SHUT_RDWR);
        else if (peer->has_left)
            (void)shutdown(peer->fd, SHUT_RD);
    }
    if (peers->first)
        timer_arm(timer, peers->soon ? LOOK_FOR_LEFT_MS : LOOK_MS);
}

struct peers *peers_new(struct loop *loop)
{
    struct peers *peers = must_alloc(sizeof *peers);
    peers->loop = loop;
    peers->timer = timer_add(loop, look, peers);
    return peers;
}

struct peers *peers_free(struct peers *peers)
{
    if (!peers)
        return NULL;
    husk_assert(peers->first == NULL);
    timer_remove(peers->timer);
    free(peers);
    return NULL;
}

static void ended(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct peer *peer = user;
    peer->source = source_remove(peer->source);
    peer->has_left = true;
    if (!peer->peers->soon)
        timer_arm(peer->peers->timer, LOOK_FOR_LEFT_MS);
    peer->peers->soon = true;
    if (peer->left)
        peer->left(peer->left_user);
}

struct peer *peer_add(struct peers *peers, int fd)
{
    struct peer *peer = must_alloc(sizeof *peer);
    *peer = (struct peer){.peers = peers, .next = peers->first, .fd = fd};
    if (peers->first)
        peers->first->previous = peer;
    peers->first = peer;
    peer->source = source_add(peers->loop, fd, EPOLLRDHUP, ended, peer);
    if (!timer_armed(peers->timer))
        timer_arm(peers->timer, LOOK_MS);
    peer_allow(peer, CONNECTION_IDLE_SECONDS);
    return peer;
}

void peer_remove(struct peer *peer)
{
    source_remove(peer->source);
    if (peer->previous)
        peer->previous->next = peer->next;
    else
        peer->peers->first = peer->next;
    if (peer->next)
        peer->next->previous = peer->previous;
    free(peer);
}

void peer_allow(struct peer *peer, unsigned seconds)
{
    peer->due = seconds ? now_ms() + (uint64_t)seconds * 1000 : 0;
}

void peer_end(struct peer *peer)
{
    (void)shutdown(peer->fd, SHUT_RDWR);
}

void peer_watch(struct peer *peer, void (*left)(void *user), void *user)
{
    peer->left = left;
    peer->left_user = user;
}

bool peer_left(const struct peer *peer)
{
    return peer->has_left;
}
