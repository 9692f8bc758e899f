/* Walking a folder that belongs to hostile code and may change meanwhile: by descriptors, one name at a time. No link is followed,
 * nothing but folders is opened here, and the depth is bounded. */
#pragma once

#include <stdbool.h>
#include <sys/stat.h>

struct tree_entry {
    int folder; /* that it is in */
    const char *name;
    const char *path; /* from where the walk began, behind the prefix */
    struct stat status;
};

struct tree_walk {
    const char *prefix; /* in front of all paths, with a slash if it is not empty */
    bool one_level;
    bool skip_internals; /* leave out ".husk", at the top: texts that the kernel keeps there */
    bool (*visit)(const struct tree_entry *entry,
                  void *user); /* folders come before what is in them. False: that is enough */
    void *user;
    bool incomplete; /* something could not be read, or was … */
    bool too_deep;
};

/* 0, or -errno when the folder itself cannot be read. `folder` is borrowed. */
int tree_walk(struct tree_walk *walk, int folder);
