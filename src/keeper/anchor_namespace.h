/* The namespace P: a user namespace of Husk's own with the range of ids its sandboxes use, a mount
 * and a pid namespace.
 *
 * Started by root: ids 0… of P are id_base… of the host, written directly. Started by a user: id 0
 * of P is that user, 1… are the subordinate ids of /etc/subuid and /etc/subgid, written by
 * newuidmap and newgidmap. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/failure.h"

enum {
    NAMESPACE_IDS = 65536,
    NAMESPACE_OWNER_SIZE = 64
};

struct id_range {
    unsigned first; /* on the host */
    unsigned count;
};

/* What of /etc/subuid or /etc/subgid (`file`) belongs to this user, by name or number. -EPERM with
 * what to do. */
int namespace_subordinate_ids(const char *file, uid_t user, struct id_range *ret,
                              struct failure *why);

/* Does `file` (/etc/subuid) give some of the ids from `id_base` on to a user, who could then act as the owner of sandboxes? */
bool namespace_ids_are_lent(const char *file, unsigned id_base, char owner[NAMESPACE_OWNER_SIZE]);

/* Fork into the new namespaces: 0 in the child (pid 1 of P, without ids yet), the pid in the parent, -errno. They belong to
 * `owner`: what sandboxes use of the kernel's per-user quotas (inotify, message queues, …) is counted as his, and must
 * not be root's. */
pid_t namespace_fork(uid_t owner, struct failure *why);
/* The parent writes the child's id maps. */
int namespace_write_maps(pid_t child, unsigned id_base, struct failure *why);
/* The child, once it has its ids: become P's root, private mounts, own /proc. */
int namespace_enter(struct failure *why);
