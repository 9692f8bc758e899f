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
    LOOK_FOR_LEFT_MS = 200,
    SPARE_FRACTION = 16 /* of all places are kept free: who makes room takes a moment to leave */
};

struct peer {
    struct peers *peers;
    struct peer *next, *previous;
    int fd;
    struct source *source; /* for its end; NULL: that was seen */
    uint64_t due;          /* 0: never */
    bool has_left;
    bool held;    /* it has an admitted request */
    bool dropped; /* it was told to make room */
    void (*left)(void *user);
    void *left_user;
};

struct peers {
    struct loop *loop;
    struct peer *first, *last; /* in this order they got, or came to want nothing: newest first */
    size_t count, limit;
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

struct peers *peers_new(struct loop *loop, size_t limit)
{
    struct peers *peers = must_alloc(sizeof *peers);
    peers->loop = loop;
    peers->limit = limit - limit / SPARE_FRACTION;
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

static void link_first(struct peer *peer)
{
    struct peers *peers = peer->peers;
    peer->previous = NULL;
    peer->next = peers->first;
    if (peers->first)
        peers->first->previous = peer;
    else
        peers->last = peer;
    peers->first = peer;
}

static void unlink_peer(struct peer *peer)
{
    struct peers *peers = peer->peers;
    if (peer->previous)
        peer->previous->next = peer->next;
    else
        peers->first = peer->next;
    if (peer->next)
        peer->next->previous = peer->previous;
    else
        peers->last = peer->previous;
}

/* The oldest that wants nothing. If all want something the newcomer has to wait, until one is served. */
static void make_room(struct peers *peers)
{
    struct peer *peer = peers->last;
    while (peer && (peer->held || peer->dropped))
        peer = peer->previous;
    if (!peer)
        return;
    peer->dropped = true;
    (void)shutdown(peer->fd, SHUT_RDWR);
}

struct peer *peer_add(struct peers *peers, int fd)
{
    if (peers->count >= peers->limit)
        make_room(peers);
    struct peer *peer = must_alloc(sizeof *peer);
    *peer = (struct peer){.peers = peers, .fd = fd};
    link_first(peer);
    peers->count++;
    peer->source = source_add(peers->loop, fd, EPOLLRDHUP, ended, peer);
    if (!timer_armed(peers->timer))
        timer_arm(peers->timer, LOOK_MS);
    peer_allow(peer, CONNECTION_IDLE_SECONDS);
    return peer;
}

void peer_remove(struct peer *peer)
{
    source_remove(peer->source);
    unlink_peer(peer);
    peer->peers->count--;
    free(peer);
}

void peer_hold(struct peer *peer, bool held)
{
    bool released = peer->held && !held;
    peer->held = held;
    if (!released)
        return;
    unlink_peer(peer);
    link_first(peer);
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
