/* Which folders below the working directory need not be looked at after an execution, because nothing happened in them.
 * For changed_files, which decides everything else: a watch (inotify) is a hint about a folder and never says that a file
 * changed. A tree of up to `least_entries` has no watches; it is walked.
 *
 * One rule: a folder is skipped only if it was read completely while it had a watch, and the watch has not fired since.
 * Everything doubtful is therefore a folder that is looked at again, at the worst all of them, which is the plain walk:
 *
 * - The watch is set before the folder is read: what happens meanwhile fires it. It is set through the folder's descriptor
 *   (fchdir, "."), so no link is followed, and only if the descriptor is the folder that is meant (inode number).
 * - A watch fires once (IN_ONESHOT) and is then gone until the folder is read again. So a storm of writes costs one event for
 *   each folder, the queue cannot get longer than two events for each watch, and it is read only after an execution: a
 *   sandbox that idles costs nothing, and one that writes cannot keep its shim busy. If the queue should overflow after
 *   all, all folders are looked at.
 * - A watch that cannot be set (quota, limit, right) leaves its folder unwatched. The quotas (fs.inotify.max_user_instances,
 *   128 by default, and max_user_watches) are shared by all sandboxes, and hostile ones can use them up.
 * - A folder beyond `most_folders` is not remembered: it is walked, and the one that holds it is always read.
 * - Events between executions (uploads, processes in the background) fire as all others; whose change it was is decided by
 *   the stamps of the files.
 * - Paths: a folder is remembered as its name and inode number in its parent. Renaming, removing or creating one fires the
 *   watch of the folder it is in, which is then read; a child that is not there under this name with this number is
 *   forgotten with all below it, and what is there is new. Folders are visited from the top, by descriptors, so no path
 *   is ever taken from memory. Whoever still holds the watch of a folder that has moved loses it then; until that
 *   happens the folder under its new name stays unwatched (IN_MASK_CREATE).
 * - Hard links: the event goes to the folder of the name that was used, the stamp to all names. So when a folder is read, and
 *   its files with several names are not the same, with the same stamps, as when it was read before, all folders are read.
 *
 * What fires no watch, or not the right one, although the kernel stamps the file: the first write to a page of a mapping,
 * io_submit(), chattr, a hard link that was made, used and removed within one execution, and a descriptor whose own name is gone
 * while the file lives on under another one. So the folders in which something happened last, as many as hold
 * `least_entries` together, are always read too: what is missed is such a change in a folder where nothing else happened
 * for long. (To watch for opening would show some of those as well, but reading a folder opens it.)
 *
 * Memory: some 120 bytes and the name for each folder here, about as much in the kernel. Setting a watch takes 5 µs, so the first
 * walk with watches hardly takes longer than one without. A walk that ends at a bound goes on where it stopped after the
 * next execution: a tree of 250,000 files, too large for one walk, was known after the third, and then took 1.5 ms.
 *
 * Owned by the loop thread. Working directory of the process: moved, and left at "/"; a folder must not stay in use. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree_watch;
struct watched_folder; /* valid until the folder that holds it is settled, or tree_watch_end() */

struct tree_watch_bounds {
    size_t least_entries; /* from UNWATCHED_FILES */
    size_t most_folders;  /* from MAX_WATCHED_FOLDERS */
};

struct tree_watch *tree_watch_new(struct tree_watch_bounds bounds); /* watches nothing yet */
struct tree_watch *tree_watch_free(struct tree_watch *watch);       /* NULL ok, returns NULL */

/* Begin a walk: see what has happened. The folder of `home_fd`, or NULL: there are no watches, walk everything. In both cases
 * tree_watch_end() ends it. */
struct watched_folder *tree_watch_begin(struct tree_watch *watch, int home_fd);
/* How many entries were looked at, and whether that was not all: a tree that is large gets watches in the next walk. */
void tree_watch_end(struct tree_watch *watch, size_t looked_at, bool over);

/* Is this descriptor the folder, and not another that took its place? */
bool watched_folder_is(const struct watched_folder *folder, int fd);
/* Is it to be read? If not, then some of those in it are: the next one after `previous` (NULL: the first one). */
bool watched_folder_due(const struct watched_folder *folder);
struct watched_folder *watched_folder_next(const struct watched_folder *folder,
                                           const struct watched_folder *previous);
const char *watched_folder_name(const struct watched_folder *folder);

/* Before a folder that is due is read. */
void tree_watch_set(struct tree_watch *watch, struct watched_folder *folder, int fd);
/* While it is read: a folder was found in it. -ENOSPC: it cannot be remembered, walk everything below it. 0: nothing happened
 * in it or below. 1: visit *ret. */
int tree_watch_found(struct tree_watch *watch, struct watched_folder *parent, const char *name,
                     uint64_t inode, struct watched_folder **ret);

/* What reading it gave. */
struct folder_reading {
    bool complete; /* all of it was seen, and all folders in it were found() */
    bool changed;  /* files in it were created or changed */
    size_t entries;
    uint64_t links; /* sum of linked_file() of its files */
};

/* 0 for a file with one name; else depends on all that changes when one of its names is used. */
uint64_t linked_file(uint64_t inode, uint32_t names, int64_t change);
/* After it was read. `folder` NULL: one that cannot be remembered. */
void tree_watch_settle(struct tree_watch *watch, struct watched_folder *folder,
                       const struct folder_reading *reading);
/* At the end of a walk: a file with several names changed, and not all folders were read. If so all are due now. */
bool tree_watch_wants_all(struct tree_watch *watch);
