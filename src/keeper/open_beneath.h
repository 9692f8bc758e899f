/* The one place where a path of a sandbox is resolved. Whoever wrote the path, and whatever the sandbox does to the folders on
 * its way meanwhile, the kernel itself sees to it that the walk stays below the given directory and on its file system
 * (openat2(2)): no "..", link, mount or race leads out of it.
 *
 * Symbolic links are followed where they stay below the directory. Absolute ones are refused: inside the container they may be
 * fine, but here they would be read from another root. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Open with `flags` of open(2) (close-on-exec is added) and, with O_CREAT, `mode`. A descriptor, or -errno: -ENOENT, -ENOTDIR,
 * -EXDEV and -ELOOP mean that no such path is below; -EAGAIN that it could not be told, because it is being changed. Opening a
 * FIFO can block and wake others: for what may be one give O_PATH. */
int open_beneath(int directory, const char *path, int flags, mode_t mode);

/* A regular file, for reading; never blocks, and does nothing to what is not one. As above, -EISDIR for a directory, -ENXIO for
 * anything else that is no regular file, -EAGAIN also when a process of the sandbox holds a lease on it. */
int open_file_beneath(int directory, const char *path);
