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
    LOOK_MS = 5000
};

struct peer {
    struct peers *peers;
    struct peer *next, *previous;
    int fd;
    uint64_t due; /* 0: never */
};

struct peers {
    struct peer *first;
    struct timer *timer;
};

/* Shutting down is enough: libmicrohttpd sees the end and closes. */
static void look(struct timer *timer, void *user)
{
    struct peers *peers = user;
    uint64_t now = now_ms();
    for (struct peer *peer = peers->first; peer; peer = peer->next) {
        if (peer->due && peer->due <= now)
            (void)shutdown(peer->fd, SHUT_RDWR);
    }
    if (peers->first)
        timer_arm(timer, LOOK_MS);
}

struct peers *peers_new(struct loop *loop)
{
    struct peers *peers = must_alloc(sizeof *peers);
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

struct peer *peer_add(struct peers *peers, int fd)
{
    struct peer *peer = must_alloc(sizeof *peer);
    *peer = (struct peer){.peers = peers, .next = peers->first, .fd = fd};
    if (peers->first)
        peers->first->previous = peer;
    peers->first = peer;
    if (!timer_armed(peers->timer))
        timer_arm(peers->timer, LOOK_MS);
    peer_allow(peer, CONNECTION_IDLE_SECONDS);
    return peer;
}

void peer_remove(struct peer *peer)
{
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

int peer_fd(const struct peer *peer)
{
    return peer->fd;
}
