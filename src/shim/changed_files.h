/* Which files below the working directory an execution created or changed: the kernel stamps each change of a file (ctime),
 * code cannot forge that stamp (as it can mtime), and it is compared with the moment at which the execution began. Looking
 * at everything is the reference; in a large tree the folders in which nothing happened are left out (tree_watch.h).
 *
 * The tree belongs to hostile code. It is walked by descriptors, one component at a time: no link is followed, no other
 * file system is entered, nothing but directories is opened, so nothing can block. Entries, folders that wait, depth, time
 * and what is reported are bounded (husk/limits.h); whatever is beyond a bound, cannot be read or has a name that is not
 * UTF-8 sets `incomplete`.
 *
 * What is not found: files inside a folder that was itself only renamed, removed files, and writes to pages of a mapping that
 * were written before (the kernel stamps the first one). What may be found although it was changed just before the
 * execution: before Linux 6.13 stamps are as coarse as the timer's tick (4 ms on Debian).
 *
 * Measured with 50,000 files in 500 folders on a tmpfs, 2 cores that had other work too, median of 31:
 *
 *                                    all of it   with watches
 *     nothing changed                    87 ms         1.9 ms
 *     1 file changed                    103 ms         1.9 ms
 *     1,000 files in 10 folders          55 ms         0.7 ms   (ends with the 256th file)
 *     1,000 files in 500 folders         26 ms          32 ms   (the same)
 *
 * Looking at everything is a quarter getdents64() and three quarters one statx() for each file, which is what the kernel
 * takes for it; `find -newerct` takes longer. A hundred files cost 0.15 ms. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct tree_watch;

/* A moment to compare with. */
struct moment {
    struct timespec stamp; /* what the kernel would write into a file that changes now */
    struct timespec wall;  /* these two tell later whether the clock was set back meanwhile */
    struct timespec steady;
};

struct moment moment_now(void);

struct changed_file {
    char *path; /* relative to the working directory, UTF-8 */
    uint64_t size;
    bool
        created; /* the file itself is new, also if it took the place of another; else it was changed */
};

struct changed_files {
    struct changed_file *files; /* regular files, sorted by path */
    size_t count;
    bool incomplete; /* there may be more */
};

/* What was created or changed since that moment. `home_fd` is borrowed, `watch` too; without one (NULL) everything is looked
 * at. 0 with *ret to be given to changed_files_free(),
 * -ENOMEM, or -errno when the directory itself cannot be read. Takes at most WALK_MS (and one system call). */
int changed_files_find(int home_fd, struct tree_watch *watch, const struct moment *since,
                       struct changed_files *ret);
void changed_files_free(struct changed_files *changed); /* zeroed is fine */
