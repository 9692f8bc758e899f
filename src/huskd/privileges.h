/* Giving up root. huskd parses what strangers send, so it keeps nothing it does not need. */
#pragma once

#include <sys/types.h>

#include "base/failure.h"

/* Started by root: become `uid` (and the gid of the same number) for good, without groups or
 * capabilities. Started by anybody else: stay that user. In both cases nothing can be gained back
 * by exec, and nobody can look inside. Checks itself; -errno: do not go on. */
int privileges_drop(uid_t uid, struct failure *why);
/* Keep the user and give up every capability, for good. */
int privileges_drop_capabilities(struct failure *why);
