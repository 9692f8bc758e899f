/* The TCP connections of clients: how long each may take over what it is doing, and whether the client is still there.
 * libmicrohttpd only knows silence (a client that sends or reads one byte a minute would stay for ever), does not look at
 * connections that are suspended, and overlooks the end of one that comes together with data.
 *
 * Connections cost memory and descriptors, so there are at most so many, and whoever holds many and asks for nothing could keep all
 * others out. So the places go to those who want something: when nearly all are taken, each further connection ends the one that
 * has been for longest without an admitted request (it is idle, dawdles over its headers, or sends a body that was refused). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct loop;
struct peer;
struct peers;

/* `limit`: how many connections there can be. */
struct peers *peers_new(struct loop *loop, size_t limit);
struct peers *peers_free(struct peers *peers); /* NULL ok, returns NULL; none may be left */

/* A connection begins: its first request must come soon. The descriptor is borrowed. */
struct peer *peer_add(struct peers *peers, int fd);
void peer_remove(struct peer *peer);
/* From now on it has so many seconds until the next call; then the connection is shut down. 0: as long as it takes. */
void peer_allow(struct peer *peer, unsigned seconds);
/* It has an admitted request, or not any more: then it may have to make room. */
void peer_hold(struct peer *peer, bool held);
/* Nothing more is said to or heard from this client. */
void peer_end(struct peer *peer);
/* Call `left` when the client goes away; NULL: do not. */
void peer_watch(struct peer *peer, void (*left)(void *user), void *user);
/* The client has gone away, or will send nothing any more, which is the same to us. */
bool peer_left(const struct peer *peer);
