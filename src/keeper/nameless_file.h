/* Files that come from outside: they are written while they have no name, so that a sandbox never sees half of one and nothing is
 * left of one that is given up; then they get their name in one step. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* A regular file without a name on the file system of `home`, owned by `uid`, mode 0644, open for reading and writing. */
int nameless_file_make(int home, uid_t uid);

/* Give such a file the name `path` below `home`, which must have no "..". Missing folders on the way are made and belong to `uid`;
 * links on the way are followed where they stay below. What has the name already is replaced, a link itself, not what it
 * leads to; *replaced tells of that. 0, or -errno with nothing changed: -EISDIR the name is that of a folder, -EBADF `fd` is not
 * such a file, -ENOSPC, or as of open_beneath(). */
int nameless_file_place(int home, uid_t uid, int fd, const char *path, bool *replaced);
