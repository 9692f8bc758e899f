/* A ZeroMQ socket, as the shim needs it: connected to one ipc endpoint, never blocking, with limits
 * on what the peer can make us hold. Zero-initialise; socket_open() … socket_close(). One thread.
 *
 * Two properties of libzmq that the owner has to live with:
 * - The descriptor is edge-triggered: after it was readable, and after every send, receive until 0
 * comes.
 * - After a frame above the limit libzmq gives the connection up and never connects again: the
 * owner opens a new socket when answers fail to come. */
#pragma once

#include <stdbool.h>
#include <zmq.h>

#include "base/failure.h"
#include "husk/limits.h"
#include "wire/part.h"

enum socket_kind {
    SOCKET_DEALER,
    SOCKET_SUBSCRIBER
};

struct socket {
    void *handle; /* NULL: closed */
};

struct socket_setup {
    void *context; /* of libzmq */
    enum socket_kind kind;
    const char *endpoint;
    const char *routing_id; /* dealers only */
};

int socket_open(struct socket *socket, const struct socket_setup *setup, struct failure *why);
void socket_close(struct socket *socket); /* closed ok; its descriptor is invalid from here on */
int socket_descriptor(const struct socket *socket); /* belongs to libzmq; -1 if there is none */
/* All parts or none: 0, -EAGAIN when the queue is full, -errno. */
int socket_send(struct socket *socket, const struct part *parts, size_t count);

/* A received message; the parts point into it. Zero-initialise, parcel_free() when done. */
struct parcel {
    size_t count;
    size_t bytes;
    bool oversized; /* over a limit in number or size of parts: what is beyond was thrown away */
    struct part parts[MAX_WIRE_FRAMES];
    zmq_msg_t messages[MAX_WIRE_FRAMES];
};

#define _cleanup_parcel_ _cleanup_(parcel_free)

/* 1: a whole message; 0: none now; -errno. */
int socket_receive(struct socket *socket, struct parcel *parcel);
void parcel_free(struct parcel *parcel);
