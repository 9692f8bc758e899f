/* The file tree of a container. Runs in the container's first process, in its new mount, pid,
 * network, … namespaces, while it still is P's root. Afterwards nothing of the host is reachable by
 * any path. */
#pragma once

#include "base/failure.h"

struct rootfs {
    const char *image;       /* directory of the read-only image */
    const char *mount_point; /* an empty directory to build under */
    int storage;             /* of storage_make(); mounted here */
    const char *cache;       /* directory of fetched packages; NULL: none */
};

int rootfs_enter(const struct rootfs *rootfs, struct failure *why);
