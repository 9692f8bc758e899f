/* Starting a sandbox's shim: a process outside the container that will confine itself (see
 * shim/README.md). */
#pragma once

#include "base/failure.h"
#include "base/id.h"
#include "keeper/cgroup.h"
#include "keeper/container.h"

struct shim_plan {
    struct id id;
    uid_t uid;  /* in P: the sandbox's own, so that they can share the folder of the ipc sockets */
    int forks;  /* over which it asks for kernels */
    int report; /* of its first kernel */
    int init_socket; /* the six descriptors stay the caller's */
    int init_pidfd;
    int storage;
    const struct cgroup *cgroup;
};

int shim_start(const struct container_host *host, const struct shim_plan *plan, int *ret_pidfd,
               struct failure *why);
/* Remove the socket that huskd connects to. */
void shim_socket_remove(const struct container_host *host, struct id id);
