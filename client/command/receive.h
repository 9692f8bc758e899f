/* Files and folders of a sandbox on their way to this machine: what `husk get` and `husk run --get` share. */
#pragma once

#include <stdbool.h>

#include "command/session.h"

struct receive_order {
    const char *path; /* in the sandbox */
    const char
        *local; /* where to; NULL: the current folder; "-": standard output, folders as tar */
    bool into;  /* `local` is a folder: it keeps its own name there */
};

/* The exit status; what went wrong is said. */
int receive_path(struct session *session, const char *sandbox, const struct receive_order *order);
