/* The state directory: sockets and locks of one running service. Empty of anything worth keeping:
 * it lives on a tmpfs and goes away when the last sandbox is stopped. */
#pragma once

#include <sys/types.h>

#include "base/failure.h"

/* Make it if it is not there. Refused where anybody but root, this user and `id_base` (the owner of a running service) could
 * change it or what leads to it. */
int state_directory_make(const char *path, uid_t id_base, struct failure *why);
/* The lock of the one huskd that serves it: a descriptor to keep open, or -errno with a sentence.
 */
int state_directory_lock(const char *path, uid_t id_base, struct failure *why);
/* 0 when no anchor holds it any more, -EWOULDBLOCK while one does, -errno. Never waits. */
int state_directory_abandoned(const char *path);
/* A start failed while we held the lock: leave no trace, unless there is an anchor, which cleans up by itself. */
void state_directory_discard(const char *path);
