/* Which files of the sandbox were created or changed while something ran, as an answer tells of them: for executions and
 * commands, which may run at the same time.
 *
 * Owns the watches of the tree (tree_watch.h). These know what happened since the last look; whoever began before that
 * look and asks after it gets everything looked at (changed_files.h). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/changed_files.h"
#include "shim/file_links.h"

struct home_changes;

/* When something began. */
struct home_mark {
    struct moment moment;
    uint64_t looks; /* so many were there before */
};

/* Borrows both. */
struct home_changes *home_changes_new(int home_fd, const struct file_links *links);
struct home_changes *home_changes_free(struct home_changes *changes); /* NULL ok, returns NULL */

struct home_mark home_changes_mark(const struct home_changes *changes);
/* The entries of "files", a new reference; *ret_truncated: there may be more. */
json_t *home_changes_since(struct home_changes *changes, const struct home_mark *mark,
                           bool *ret_truncated);
