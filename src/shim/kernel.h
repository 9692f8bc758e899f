/* The kernel of the sandbox: one process after the other, each a generation with its own key, files
 * and channels.
 *
 *     NEW ── start ──▶ STARTING ── answers ──▶ READY ── dies, or is replaced ──▶ STOPPING
 *                       │  │ ▲                                                    ▲  │
 *                       │  │ └── everything in the container is gone ─────────────┼──┘
 *                       │  └──── a start failed, try again ───────────────────────┘
 *                       └─▶ DEAD: the first start failed, or several in a row
 *
 * STARTING ends when the kernel has answered kernel_info_request and something has come on iopub:
 * requests may get lost before. STOPPING kills every process of the container but commands (commands.h) and waits for the end
 * of the kernel's, so two kernels never share a container; after a start that failed commands are killed too, as they may
 * be what is in the way. A kernel that ends by itself is replaced by itself. Loop thread. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/failure.h"
#include "loop/loop.h"
#include "shim/channels.h"

struct buffer;
struct init_link;

enum kernel_state {
    KERNEL_NEW,
    KERNEL_STARTING,
    KERNEL_READY,
    KERNEL_STOPPING,
    KERNEL_DEAD
};

struct kernel;

/* Callbacks may call any function of this header but kernel_free(). */
struct kernel_events {
    void (*changed)(void *user); /* the state is another */
    void (*ready)(void *user);
    /* It ended by itself, and a fresh one is on its way; `how`: "was killed by SIGKILL". */
    void (*lost)(void *user, const char *how);
    /* No kernel can be had any more; `detail`: a sentence. */
    void (*given_up)(void *user, const char *detail);
    /* While ready, and what a kernel that has just ended left behind. `number`: of the request it
     * belongs to. */
    void (*message)(void *user, enum channel channel, const struct message *message,
                    uint64_t number);
    void (*damaged)(void *user); /* a message is lost */
    void (*swept)(void *user);   /* everything in the container is being killed */
    void (*container_gone)(void *user);
};

/* Borrowed for the kernel's life. */
struct kernel_setup {
    struct loop *loop;
    struct init_link *init;
    int fork_socket; /* to ask for forked kernels; if that fails they are executed by init */
    int null_fd;     /* /dev/null: there is none below the shim's root */
    const struct kernel_events *events;
    void *user;
};

struct kernel *kernel_new(const struct kernel_setup *setup,
                          struct failure *why);    /* NULL on failure */
struct kernel *kernel_free(struct kernel *kernel); /* NULL ok, returns NULL */

/* NEW → STARTING. `environment` is an object of strings, borrowed, NULL ok; `threads` is how many of them are worth having for
 * computing. 0, or -EINVAL with nothing changed. */
int kernel_start(struct kernel *kernel, const json_t *environment, unsigned threads,
                 struct failure *why);
/* A fresh one in place of the one that is ready. In all other states: nothing, as one is on its way
 * or none can come. */
void kernel_replace(struct kernel *kernel);
/* SIGINT and the like to the kernel's process group. */
void kernel_signal(struct kernel *kernel, int signal);

/* Only while ready: -ENOTCONN otherwise. As channels_send(). */
int kernel_send(struct kernel *kernel, enum channel channel, const struct message_body *body,
                uint64_t *ret_number);
/* The same for a request that has nothing to say but its type. */
int kernel_ask(struct kernel *kernel, enum channel channel, const char *type, uint64_t *ret_number);
void kernel_hold_output(struct kernel *kernel, bool hold); /* see channels_hold_output() */
void kernel_reopen(struct kernel *kernel, enum channel channel);
/* Before every wait of the loop, see channels_pump(). */
void kernel_pump(struct kernel *kernel);

enum kernel_state kernel_state(const struct kernel *kernel);
unsigned kernel_generation(const struct kernel *kernel); /* 0: none was started yet */
const char *kernel_detail(const struct kernel *kernel);  /* why it is DEAD, else "" */
json_t *kernel_info(const struct kernel *kernel);        /* borrowed; NULL until one was ready */
/* What every process of the sandbox gets besides the image's: "KEY=value" texts, each with its NUL. Borrowed. */
const struct buffer *kernel_environment(const struct kernel *kernel);
