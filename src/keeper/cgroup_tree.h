/* The service's part of the cgroup hierarchies: one directory per hierarchy (v1: memory, cpu, pids
 * and, for usage, cpuacct; v2: one for all; hybrid machines mix both), owned by P's root, with one
 * child per sandbox and one, `service`, for the keeper, the shims and the anchor: a process may
 * only be moved between cgroups below one that its mover owns.
 *
 * The anchor's warden makes and removes the tree, the keeper uses it. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/failure.h"

enum controller {
    CONTROLLER_MEMORY,
    CONTROLLER_CPU,
    CONTROLLER_PIDS,
    CONTROLLER_CPUACCT, /* v1 only; without it CPU time is not reported */
    CONTROLLER_COUNT,
};

struct cgroup_hierarchy {
    bool unified; /* v2 */
    char parent[PATH_MAX / 2];
    char path[PATH_MAX]; /* parent/husk-… */
};

struct cgroup_tree {
    int count; /* 0: limits are off */
    struct cgroup_hierarchy hierarchies[CONTROLLER_COUNT];
    int of[CONTROLLER_COUNT]; /* index into hierarchies, -1: none */
};

/* The v2 cgroup the caller is in, "" at the top: where a user's delegated subtree begins. */
int cgroup_own_path(char *path, size_t size, struct failure *why);

/* Find where the tree of the service with this state directory is or would be. `below`: NULL for
 * the top of the hierarchies, or a path of cgroup_own_path(). -ENOENT with a sentence when a needed
 * controller is missing. */
int cgroup_tree_find(const char *state_dir, const char *below, struct cgroup_tree *ret,
                     struct failure *why);

/* Make it, empty of old sandboxes, and hand it to `owner`. */
int cgroup_tree_make(const struct cgroup_tree *tree, uid_t owner, struct failure *why);
/* Move a process into the `service` cgroup. */
int cgroup_tree_enter(const struct cgroup_tree *tree, pid_t pid, struct failure *why);
/* Remove every directory of it. Waits a little for processes that are just ending. */
int cgroup_tree_remove(const struct cgroup_tree *tree, struct failure *why);
