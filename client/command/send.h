/* Files and folders of this machine on their way to a sandbox: what `husk put` and `husk run --upload` share. */
#pragma once

#include <stdbool.h>

#include "command/session.h"

struct send_order {
    const char *local; /* a file, a folder, or "-" */
    const char *to;    /* NULL: the working directory, with its own name */
    bool into;         /* `to` is a folder: it keeps its own name there */
    struct words excludes;
};

/* The exit status; what went wrong is said. */
int send_path(struct session *session, const char *sandbox, const struct send_order *order);
