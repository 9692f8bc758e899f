/* Bytes as they come from a connection, cut into lines. Pure. Owns what it has of the line that is not complete. */
#pragma once

#include <stddef.h>

#include "base/buffer.h"

struct lines {
    struct buffer part; /* BUFFER_LIMITED(): of one line */
};

/* `line` has a NUL behind it and no line break; it may be changed, and is gone afterwards. */
typedef int (*line_handler)(char *line, size_t length, void *user);

/* Call `handler` for each line that is complete now, until it returns something else than 0: that is returned. -ENOSPC: a
 * line is too long; -ENOMEM. */
int lines_feed(struct lines *lines, const char *data, size_t length, line_handler handler,
               void *user);
void lines_free(struct lines *lines);
