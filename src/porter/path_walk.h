/* Names of archives, one component after the other. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"
#include "husk/limits.h"

/* The next component of *path into `name`; components "." and empty ones are left out. False: that was all. *path moves on. The path
 * has passed path_check(). */
bool path_next(const char **path, char name[MAX_FILE_NAME_BYTES + 1]);

/* Is this a path that may be made below a folder: relative, without "..", UTF-8, not too long, not too deep? 0, or -EBADMSG with a
 * sentence. */
int path_check(const char *path, struct failure *why);
/* Does the target of a symbolic link at `path` stay below where `path` begins? */
bool path_link_stays(const char *path, const char *target);

/* Open the folder of a path's last component below `top`, which goes into `name`; missing folders are made if `make` says so. No
 * link is followed. A descriptor, or -errno: -ENOTDIR when something else is in the way. */
int path_open_parent(int top, const char *path, bool make, char name[MAX_FILE_NAME_BYTES + 1]);
/* The folder of the whole path. */
int path_open(int top, const char *path, bool make);
