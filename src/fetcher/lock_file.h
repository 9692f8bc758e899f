/* The resolver's answer: a pylock.toml as uv writes it. Read strictly: what is not as it must be is an error, because parts of
 * it come from the index. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"
#include "husk/limits.h"

enum {
    SHA256_TEXT = 64
};

struct locked_package {
    char name[MAX_PACKAGE_NAME + 1];
    char version[MAX_PACKAGE_VERSION + 1];
    char *url;                     /* of the best wheel; NULL: it has none */
    char file[MAX_WHEEL_NAME + 1]; /* its name */
    char sha256[SHA256_TEXT + 1];  /* "": the index does not tell */
    int rank;                      /* how good the wheel fits; the reader's own */
};

struct lock_file {
    struct locked_package *packages;
    size_t count;
};

/* `text` is cut up. Free the lock in any case. */
int lock_file_read(char *text, struct lock_file *lock, struct failure *why);
void lock_file_free(struct lock_file *lock);
