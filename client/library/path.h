/* The path of a request: pieces of ours as they are, pieces of the caller encoded, so that none can leave its place. */
#pragma once

#include "base/buffer.h"
#include "husk.h"

struct path {
    struct buffer text;
    struct husk_error *error;
    int result;
};

#define _cleanup_path_ _cleanup_(path_free)

/* "/sandbox/{sandbox}" and then `rest`, which is ours. */
void path_begin(struct path *path, const char *sandbox, const char *rest, struct husk_error *error);
void path_add(struct path *path, const char *text);
/* One segment, or the value of a query: a name (`what` it is, for the sentence), not empty. */
void path_add_name(struct path *path, const char *name, const char *what);
/* A path of a file in the sandbox: slashes stay. May be empty. */
void path_add_file(struct path *path, const char *file);
void path_free(struct path *path);
