/* The link to the container's init (husk/init_protocol.h): start a process, signal it, kill
 * everything, hear of ends. Sends never block; what init sends is checked like anything else that
 * comes out of the sandbox.
 *
 * Life: init_link_new → … → init_link_free. Loop thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "loop/loop.h"

struct init_link;

struct init_events {
    void (*started)(void *user, uint64_t tag, int pidfd); /* takes the pidfd */
    void (*failed)(void *user, uint64_t tag, int code);   /* could not be started: errno */
    void (*exited)(void *user, uint64_t tag, int wait_status);
    void (*gone)(void *user); /* the container has ended */
};

/* What to start. The strings are borrowed. */
struct init_command {
    const char *const *arguments; /* ended by NULL */
    const char *environment;      /* NUL-terminated "KEY=value" texts one after the other */
    size_t environment_bytes;
    int stdio[3];
};

/* Borrows `socket`, `events` and `user` for its life. NULL when the socket cannot be watched. */
struct init_link *init_link_new(struct loop *loop, int socket, const struct init_events *events,
                                void *user);
struct init_link *init_link_free(struct init_link *link); /* NULL ok, returns NULL */

/* ← started or failed, later exited, each with this tag. The descriptors stay the caller's. */
int init_link_start(struct init_link *link, uint64_t tag, const struct init_command *command,
                    struct failure *why);
int init_link_signal(struct init_link *link, uint64_t tag, int signal);
/* From here on init_link_signal() with this tag means that process, which init did not start. */
int init_link_adopt(struct init_link *link, uint64_t tag, int pid);
int init_link_kill_all(struct init_link *link);
