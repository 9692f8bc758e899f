/* The link to the container's init (husk/init_protocol.h): start a process, signal it, kill
 * everything, hear of ends. Sends never block: init may be slow, as it has its share of the sandbox's CPU and no more. So what is
 * small waits here until the socket has room, and what is large is refused. What init sends is checked like anything else
 * that comes out of the sandbox.
 *
 * Life: init_link_new → … → init_link_free. Loop thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "husk/init_protocol.h"
#include "loop/loop.h"

struct init_link;

/* `number`: which process of this client. */
struct init_events {
    void (*started)(void *user, uint64_t number, int pid,
                    int pidfd); /* takes the pidfd; may be -1 */
    /* Could not be started: errno. Also before `started`, and `exited` may follow. */
    void (*failed)(void *user, uint64_t number, enum init_step step, int code);
    void (*exited)(void *user, uint64_t number, int wait_status);
    void (*gone)(void *user); /* the container has ended; NULL: of no interest */
};

/* Whose processes they are: each numbers its own, and hears of no others. */
enum init_client {
    INIT_KERNEL,
    INIT_COMMANDS,
    INIT_PACKAGES,
    INIT_CLIENTS
};
struct init_name {
    enum init_client client;
    uint64_t number; /* below 2^56 */
};

/* What to start. The strings are borrowed. */
struct init_command {
    const char *const *arguments; /* ended by NULL; the first is looked for in PATH */
    const char *directory;        /* absolute, or below the home directory; NULL: that one */
    bool apart;                   /* init_link_kill_others() leaves it alone */
    const char *environment;      /* NUL-terminated "KEY=value" texts one after the other */
    size_t environment_bytes;
    int stdio[3];
};

/* Borrows `socket` for its life. NULL when the socket cannot be watched. */
struct init_link *init_link_new(struct loop *loop, int socket);
struct init_link *init_link_free(struct init_link *link); /* NULL ok, returns NULL */
/* Who hears of the processes of this client. Both are borrowed for the link's life. */
void init_link_listen(struct init_link *link, enum init_client client,
                      const struct init_events *events, void *user);

/* ← started or failed, later exited, each with this number. The descriptors stay the caller's. -EAGAIN: try again in a
 * moment. */
int init_link_start(struct init_link *link, struct init_name name,
                    const struct init_command *command, struct failure *why);
/* To its process group; SIGKILL to its session, if it was started apart. */
int init_link_signal(struct init_link *link, struct init_name name, int signal);
/* From here on init_link_signal() with this name means that process, which init did not start. */
int init_link_adopt(struct init_link *link, struct init_name name, int pid);
int init_link_kill_all(struct init_link *link);
/* All but those that were started apart, and what belongs to their sessions. */
int init_link_kill_others(struct init_link *link);
/* One that was started apart: what it left behind is of no interest any more. */
int init_link_forget(struct init_link *link, struct init_name name);
