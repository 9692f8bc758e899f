/* The verbs of this folder, by file; verbs.c has the table of all. */
#pragma once

#include "command/verb.h"

#define DECLARE_VERB(name)                                                                         \
    int verb_##name(const struct invocation *invocation, int argc, char **argv);                   \
    extern const char help_##name[]

/* run.c, exec.c */
DECLARE_VERB(run);
DECLARE_VERB(exec);
DECLARE_VERB(sh);
/* sandboxes.c */
DECLARE_VERB(create);
DECLARE_VERB(ls);
DECLARE_VERB(info);
DECLARE_VERB(close);
/* kernel.c */
DECLARE_VERB(extend);
DECLARE_VERB(restart);
DECLARE_VERB(interrupt);
DECLARE_VERB(health);
/* packages.c */
DECLARE_VERB(install);
DECLARE_VERB(packages);
/* files.c */
DECLARE_VERB(put);
DECLARE_VERB(get);
DECLARE_VERB(files);
DECLARE_VERB(rm);
