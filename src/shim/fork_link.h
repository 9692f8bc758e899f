/* Asking the keeper's zygote for a kernel (husk/zygote_protocol.h), and hearing from it. The first one has been asked for by the
 * keeper. One kernel at a time: a new request ends the hearing of the one before. What comes back is checked like anything
 * that comes out of the sandbox. Loop thread. */
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
struct fork_wish {
    const char *connection_file;
    const char *environment; /* NUL-terminated "KEY=value" texts one after the other */
    size_t environment_bytes;
    int output; /* stdout and stderr; stays the caller's */
};

/* Where kernels are asked for, borrowed, and where the first is heard of, taken. They need not be sockets: then starting fails. */
struct fork_sockets {
    int requests;
    int first_report;
};
struct fork_link *fork_link_new(struct loop *loop, struct fork_sockets sockets,
                                const struct fork_events *events, void *user);
struct fork_link *fork_link_free(struct fork_link *link); /* NULL ok, returns NULL */

/* ← events. -errno: it cannot be asked. */
int fork_link_start(struct fork_link *link, const struct fork_wish *wish, struct failure *why);
/* Hear no more of the last one. */
void fork_link_forget(struct fork_link *link);
