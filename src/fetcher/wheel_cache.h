/* Wheels on disk, each in a folder named by its hash. A folder appears in one rename, so whoever sees it sees a whole wheel.
 * Used ones get a new time stamp; when there are too many bytes the oldest go. Paths are those of the fetcher's tree. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"

/* First of all: makes a place for what is downloaded, and removes what fetchers have left that were killed. */
int wheel_cache_begin(struct failure *why);

bool wheel_cache_has(const char *sha256, const char *file);
/* Where to write a wheel that is being downloaded; the caller names it. At least PATH_MAX bytes. */
void wheel_cache_part(unsigned number, char *path);
/* It is there: check it and take it in. `sha256` "": it gets what it is. -EBADMSG: it is not what it should be. */
int wheel_cache_take(unsigned number, const char *file, char *sha256, uint64_t *bytes,
                     struct failure *why);
/* Last of all: remove the oldest until `limit` bytes are left; those that somebody may just be installing stay, unless they are
 * twice as much. What the resolver has noted is forgotten when it is more than a quarter of that. */
void wheel_cache_trim(uint64_t limit);
