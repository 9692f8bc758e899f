/* The first process of a container, from its birth in new namespaces to the execution of init. It
 * reports to the keeper over a socket: first that it needs its id map, then nothing (the socket
 * closes when init is executed) or a failure. */
#pragma once

#include <sys/types.h>

#include "keeper/cgroup.h"
#include "keeper/rootfs.h"

struct setup {
    struct rootfs rootfs;
    struct cgroup cgroup;
    int filter_fd;
    int init_program;
    int init_socket; /* becomes INIT_SOCKET_FD */
    int report;      /* to the keeper */
};

/* What comes over the report socket; the keeper answers code 0 with one byte once the map is
 * written. */
struct setup_report {
    int code; /* 0: needs its id map; otherwise errno, and this is the end */
    char text[sizeof((struct failure *)0)->text];
};

/* The new process's pid and *pidfd, or -errno. Never returns in the child. */
pid_t setup_fork(const struct setup *setup, int *pidfd, struct failure *why);
/* Called by the keeper: one id, 1000 inside = uid in P. */
int setup_write_map(pid_t pid, uid_t uid, struct failure *why);
