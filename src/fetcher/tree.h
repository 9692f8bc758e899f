/* What the fetcher sees of the machine: the pristine image, read-only; a small /tmp; the cache on /mnt; how to find names
 * (resolv.conf, hosts). Nothing else of the host, and no way back. */
#pragma once

#include "base/failure.h"

/* In a mount and a pid namespace of its own, as P's root. Afterwards the process is FETCHER_ID, without any privilege, under
 * the system call filter. */
int tree_enter(const char *image, const char *cache, const char *mount_point, struct failure *why);
