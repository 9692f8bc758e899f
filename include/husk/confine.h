/* Confinement of everything that handles what a stranger wrote: the processes of a container and
 * its shim. One function does it for all of them, and then reads back from the kernel what it has
 * done; if a line of /proc/self/status is not as it must be, it fails and the process must not go
 * on.
 *
 * Order, for a process that holds all capabilities of its user namespace: enter cgroup and
 * namespaces, then confine(): groups, ids, resource limits, bounding set, securebits, capabilities,
 * no_new_privs, seccomp, check. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/failure.h"

struct confinement {
    uid_t uid;               /* as seen in the process's user namespace; the gid is the same */
    int filter_fd;           /* memfd with the seccomp program: an array of struct sock_filter */
    int status_fd;           /* /proc/self/status, opened in the process's own user namespace */
    unsigned processes;      /* RLIMIT_NPROC, threads counted; 0: none, as the cgroup limits them */
    size_t memory_bytes;     /* RLIMIT_DATA; 0: none */
    int score_adjustment_fd; /* /proc/self/oom_score_adj for writing; -1: leave it */
};

/* 0, or -errno: then exit at once. */
int confine(const struct confinement *how, struct failure *why);

/* Of every process that starts inside a container: the one user that exists there, limits by the cgroup. `filter_fd` as above. Its
 * namespaces, /proc among them, must be the container's already. */
enum {
    SANDBOX_USER_ID = 1000
};
int confine_inside(int filter_fd, struct failure *why);
