/* All that is in a folder of this machine, by descriptors: each folder is opened in the one that it was found in, and no link is followed. So
 * whoever moves folders or puts links in their place meanwhile leads nowhere else: what was moved away is still seen, what has become a link
 * ends it.
 *
 *     struct walk *walk = walk_new(folder);
 *     while ((r = walk_next(walk, &entry)) > 0) … openat(entry.folder, entry.name, O_NOFOLLOW …)
 *
 * One descriptor for each level, and the names of the folders on the way. One thread. */
#pragma once

#include <sys/stat.h>

struct walk;

struct walk_entry {
    int folder; /* that it is in; of the walk */
    const char *
        name; /* in there; "." is the folder that the walk began with. Both live until the next one */
    const char *path; /* below that: "a/b"; "" is itself */
    struct stat status;
};

/* `folder` is a descriptor that can be read; borrowed until walk_free(). */
struct walk *walk_new(int folder);
struct walk *walk_free(struct walk *walk); /* NULL ok, returns NULL */

/* Folders before what is in them, in the order of their names. 1; 0: that was all; -errno: `path` is what cannot be read, -E2BIG: a folder has more
 * than MAX_UNPACKED_ENTRIES, -ELOOP: it is nested deeper than MAX_PORTER_DEPTH. */
int walk_next(struct walk *walk, struct walk_entry *ret);
/* Not into the folder that came last. */
void walk_skip(struct walk *walk);
