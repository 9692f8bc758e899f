/* The folders of this machine that a model may name files in. A model can be talked into things by what it reads, so what it may
 * touch is for the user to say: --root, or without it the folder in which `husk mcp` was started, unless that is the home
 * directory or above it. No spelling of a path, and no link, leads out of them: the kernel sees to that (openat2). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "husk/limits.h"

struct failure;

struct root {
    char *name; /* as it was given, absolute */
    char *real; /* without links */
    int folder;
};

struct roots {
    struct root list[MAX_BRIDGE_ROOTS];
    size_t count; /* 0: no local paths at all */
    char *start;  /* what relative paths are relative to */
    char why
        [240]; /* a sentence for those that name a path: why there are none, or which there are */
};

/* `count` 0: none were given. */
int roots_open(struct roots *roots, const char *const *folders, size_t count, struct failure *why);
void roots_close(struct roots *roots);

/* A file or folder. Gives a descriptor to read it, or -errno with a sentence in `why`: pipes and devices are refused, too. */
int roots_open_path(const struct roots *roots, const char *path, struct failure *why);
/* Might a file be made there? 0, or -errno with a sentence. */
int roots_check(const struct roots *roots, const char *path, struct failure *why);
/* The folder in which a file `path` is to be made, and its name (at most MAX_FILE_NAME_BYTES, in `name`); missing folders are made. If `path` is a folder,
 * that is the one, and the file's name is `fallback`. Gives a descriptor, or -errno with a sentence. */
int roots_open_parent(const struct roots *roots, const char *path, const char *fallback,
                      char name[MAX_FILE_NAME_BYTES + 1], struct failure *why);
