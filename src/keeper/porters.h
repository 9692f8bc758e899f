/* The porters of one container: processes that do one job each on its folders (porter/README.md). They confine themselves; they are
 * in its cgroup, so that it pays for what they do, and end with it. Owner: the keeper's loop. */
#pragma once

#include "base/id.h"
#include "keeper/cgroup.h"
#include "keeper/container.h"

struct porters;

/* What one porter gets. All of it stays the caller's. */
struct porter_plan {
    struct id id;
    uid_t uid; /* in P */
    const struct cgroup *cgroup;
    int init_pidfd; /* whose network and ipc namespaces it joins */
    int storage;
    int home;
    int folder;  /* the one it works on */
    int archive; /* -1: none */
};

/* `ended` is called whenever one of them has ended. */
struct porters *porters_new(struct container_host *host, void (*ended)(void *user), void *user);
struct porters *porters_free(struct porters *porters); /* none may be left */

/* The socket to it, or -errno: -EBUSY this container has enough of them, -EUSERS all together have. */
int porters_start(struct porters *porters, const struct porter_plan *plan);
unsigned porters_count(const struct porters *porters);
/* Kill all of them; their end is told. */
void porters_end(struct porters *porters);
