/* The cgroup of one sandbox, in every hierarchy of the tree. With limits off all of it does
 * nothing. */
#pragma once

#include "base/failure.h"
#include "base/id.h"
#include "husk/keeper_protocol.h"
#include "keeper/cgroup_tree.h"

struct cgroup {
    const struct cgroup_tree *tree;    /* borrowed */
    int directories[CONTROLLER_COUNT]; /* one per hierarchy, -1: none */
    char name[ID_TEXT_SIZE];
};

/* Make it with its limits. The memory limit is memory + disk, since the pages of the sandbox's
 * tmpfs are charged to it. On failure nothing is left. `cgroup` is usable in the other calls even
 * then. */
int cgroup_make(const struct cgroup_tree *tree, struct id id, const struct sandbox_limits *limits,
                struct cgroup *cgroup, struct failure *why);
/* Other limits for one that is in use. On failure some of them may be in force. */
int cgroup_set_limits(const struct cgroup *cgroup, const struct sandbox_limits *limits,
                      struct failure *why);
/* Open one that exists (the keeper was restarted). */
void cgroup_reopen(const struct cgroup_tree *tree, struct id id, struct cgroup *cgroup);

/* Called by the process that is to be in it; then it can only be left by those who own the tree. */
int cgroup_join(const struct cgroup *cgroup, struct failure *why);

/* The file with the line "oom_kill N", for reading; /dev/null without limits. */
int cgroup_open_oom_counter(const struct cgroup *cgroup);
/* Fills memory, cpu, pids and kills; 0 for what is not known. */
void cgroup_usage(const struct cgroup *cgroup, struct sandbox_usage *usage);

/* 0, or -EBUSY while a process of it is still ending: ask again. Closes the descriptors when done.
 */
int cgroup_remove(struct cgroup *cgroup);
