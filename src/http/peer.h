/* The TCP connections of clients: how long each may take over what it is doing, and whether the client is still there.
 * libmicrohttpd only knows silence (a client that sends or reads one byte a minute would stay for ever), does not look at
 * connections that are suspended, and overlooks the end of one that comes together with data. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct loop;
struct peer;
struct peers;

struct peers *peers_new(struct loop *loop);
struct peers *peers_free(struct peers *peers); /* NULL ok, returns NULL; none may be left */

/* A connection begins: its first request must come soon. The descriptor is borrowed. */
struct peer *peer_add(struct peers *peers, int fd);
void peer_remove(struct peer *peer);
/* From now on it has so many seconds until the next call; then the connection is shut down. 0: as long as it takes. */
void peer_allow(struct peer *peer, unsigned seconds);
/* Nothing more is said to or heard from this client. */
void peer_end(struct peer *peer);
/* Call `left` when the client goes away; NULL: do not. */
void peer_watch(struct peer *peer, void (*left)(void *user), void *user);
/* The client has gone away, or will send nothing any more, which is the same to us. */
bool peer_left(const struct peer *peer);
