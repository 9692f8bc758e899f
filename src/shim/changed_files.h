/* Which files below the working directory an execution created or changed. Nothing is kept between two executions: the
 * kernel stamps each change of a file (ctime), code cannot forge that stamp (as it can mtime), and a walk compares it with
 * the moment at which the execution began.
 *
 * The tree belongs to hostile code. It is walked by descriptors, one component at a time: no link is followed, no other
 * file system is entered, nothing but directories is opened, so nothing can block. Entries, folders that wait, depth, time
 * and what is reported are bounded (husk/limits.h); whatever is beyond a bound, cannot be read or has a name that is not
 * UTF-8 sets `incomplete`.
 *
 * What is not found: files inside a folder that was itself only renamed, and removed files. What may be found although it
 * was changed just before the execution: before Linux 6.13 stamps are as coarse as the timer's tick (4 ms on Debian).
 *
 * Measured on 2 cores, 50,000 files in 500 folders on a tmpfs, nothing changed: 75 ms, where
 * `find -newerct` takes 86 and Python's os.walk() with os.stat() 151. Of that 19 are getdents64() and 55 one statx() for each
 * file, which is what the kernel takes for it; a hundred files cost 0.15 ms. In the shim, under its system call filter, an execution
 * of `1` beside those 50,000 files takes 100 ms longer. */
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
