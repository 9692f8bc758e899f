/* The connection to huskd: the listening socket, the newest connection on it, frames both ways
 * (husk/shim_protocol.h). huskd may go and come back at any time. Sends never block; a huskd that
 * does not read is dropped.
 *
 * Life: connection_new → … → connection_free. Loop thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/frame.h"
#include "husk/shim_protocol.h"
#include "loop/loop.h"

struct connection;

/* Whom to answer: a request of a huskd that was connected. When that one is gone its tags mean
 * nothing any more, even if the next huskd uses the same numbers. */
struct ticket {
    uint64_t connection; /* counts connections, from 1 */
    uint64_t tag;
};

static inline bool same_ticket(struct ticket a, struct ticket b)
{
    return a.connection == b.connection && a.tag == b.tag;
}

/* A frame has come; the payload is borrowed until the first answer or notice is sent. The ticket
 * answers it. */
typedef void (*connection_callback)(void *user, uint16_t type, struct ticket ticket,
                                    const char *payload, size_t length);

/* Borrows `listener` (non-blocking from here on) and `user`. NULL when it cannot be watched. */
struct connection *connection_new(struct loop *loop, int listener, connection_callback callback,
                                  void *user);
struct connection *connection_free(struct connection *connection); /* NULL ok, returns NULL */

/* Is whoever asked still connected? */
bool connection_knows(const struct connection *connection, struct ticket ticket);
/* Answer a request; dropped if whoever asked is gone. What is answered and told goes out with connection_flush(). */
void connection_answer(struct connection *connection, struct ticket ticket, enum shim_type type,
                       const void *payload, size_t length);
/* To whoever is connected now, if anybody. */
void connection_tell(struct connection *connection, enum shim_type type, const void *payload,
                     size_t length);
/* The same, with a tag of the caller's own. */
void connection_tell_tagged(struct connection *connection, enum shim_type type, uint64_t tag,
                            const void *payload, size_t length);
/* Is anybody? */
bool connection_present(const struct connection *connection);
/* To be called before every wait of the loop: several messages then wake huskd once. */
void connection_flush(struct connection *connection);
