/* The zygote of the image: a Python process in P that has imported everything, and forks a kernel into a container when it is
 * told to (husk/zygote_protocol.h).
 *
 *     STARTING ── it says that it is ready ──▶ READY ── it ends ──▶ DOWN ── after a while ──▶ STARTING
 *
 * Until it is READY, and whenever it is not, kernels are executed by init instead. It ends with the keeper, by the end
 * of its socket; the kernels that it forked live on. Owner: the keeper's loop. */
#pragma once

#include "keeper/cgroup.h"
#include "keeper/container.h"

struct zygote;

/* Never fails: if it cannot be started that is tried again later. Lives until the process ends. */
struct zygote *zygote_new(struct container_host *host);

/* The container a kernel is to be forked into. */
struct zygote_target {
    int init_pidfd;
    const struct cgroup *cgroup;
};

/* Have the first kernel of a container that is being made forked. The shim's end of the report, and the keeper's of the leash: give
 * it a byte when the container is ready. Both are the caller's. Without a zygote the report's other end is closed. 0 or -errno. */
struct first_kernel {
    int report;
    int leash; /* -1: there is no kernel on it */
};
int zygote_begin(struct zygote *zygote, const struct zygote_target *target,
                 struct first_kernel *ret, struct failure *why);

/* A shim's request is waiting in `socket`: pass it on, or refuse it. 0; -EPIPE: the shim is gone, or sent something that it must
 * not send: listen to it no more. */
int zygote_forward(struct zygote *zygote, int socket, const struct zygote_target *target);
