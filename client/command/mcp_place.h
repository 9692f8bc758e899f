/* A file of this machine while it is written: under another name in its folder until it is complete, so that nobody sees half of it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "husk/limits.h"

struct failure;
struct roots;

struct place {
    int folder; /* -1: none */
    int file;
    char name[MAX_FILE_NAME_BYTES + 1];
    char temporary[32]; /* "": there is none (any more) */
    bool overwrite;
};

/* `path` may be a folder: then the file is called `fallback`. What is there already is refused here if it may not be overwritten.
 * -errno with a sentence. */
int place_open(struct place *place, const struct roots *roots, const char *path,
               const char *fallback, bool overwrite, struct failure *why);
int place_write(const struct place *place, const char *data, size_t length); /* 0 or -errno */
/* It is complete: give it its name. */
int place_finish(struct place *place, struct failure *why);
void place_close(struct place *place); /* what is not complete goes */
