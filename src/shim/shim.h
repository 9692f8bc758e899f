/* The shim as a whole: it puts the connection to huskd, the kernel and the executor together, and turns frames into calls
 * and events into frames.
 *
 * Life: shim_new → loop_run → shim_free. Loop thread. */
#pragma once

#include "base/failure.h"
#include "base/id.h"
#include "loop/loop.h"

struct shim;

/* Borrowed descriptors, see enum shim_descriptor. */
struct shim_setup {
    struct loop *loop;
    struct id sandbox;
    int listen_fd;
    int init_fd;
    int fork_fd;
    int report_fd; /* taken */
    int home_fd;   /* the sandbox's files */
    int oom_fd;
    int null_fd; /* /dev/null */
};

/* NULL on failure. Stops the loop with 0 when the container is gone. */
struct shim *shim_new(const struct shim_setup *setup, struct failure *why);
struct shim *shim_free(struct shim *shim); /* NULL ok, returns NULL */
