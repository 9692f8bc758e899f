/* The files of a folder, as JSON: sorted by path, at most MAX_LISTED_FILES, without what has no place in JSON or in a URL (names that
 * are not UTF-8, paths that are too long) and without pipes, sockets and devices. */
#pragma once

#include "porter/reply.h"

/* `path` is the folder's own; what is in it gets its path from there. */
int list_folder(struct reply *reply, int folder, const struct porter_request *request,
                const char *path, struct porter_end *end, struct failure *why);
