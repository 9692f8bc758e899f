/* Asking the keeper's zygote for a kernel (husk/zygote_protocol.h), and hearing from it. One kernel at a time: a new request
 * ends the hearing of the one before. What comes back is checked like anything that comes out of the sandbox. Loop thread. */
#pragma once

#include <stddef.h>

#include "base/failure.h"
#include "loop/loop.h"

struct fork_link;

struct fork_events {
    void (*started)(void *user, int pidfd);      /* takes the pidfd; -1: it could not be passed */
    void (*joined)(void *user, int pid);         /* it runs, confined; its pid in the container */
    void (*failed)(void *user, const char *why); /* there is no process, or it has given up */
    void (*exited)(void *user, int wait_status);
    void (*lost)(void *user); /* nothing more will be heard: the zygote has ended */
};

/* What to start. The strings are borrowed. */
struct fork_order {
    const char *connection_file;
    const char *environment; /* NUL-terminated "KEY=value" texts one after the other */
    size_t environment_bytes;
    int output; /* stdout and stderr; stays the caller's */
};

/* Borrows `socket`, which need not be one: then every start fails. */
struct fork_link *fork_link_new(struct loop *loop, int socket, const struct fork_events *events,
                                void *user);
struct fork_link *fork_link_free(struct fork_link *link); /* NULL ok, returns NULL */

/* ← events. -errno: it cannot be asked. */
int fork_link_start(struct fork_link *link, const struct fork_order *order, struct failure *why);
/* Hear no more of the last one. */
void fork_link_forget(struct fork_link *link);
