#include "library/lines.h"

#include <errno.h>
#include <string.h>

int lines_feed(struct lines *lines, const char *data, size_t length, line_handler handler,
               void *user)
{
    while (length > 0) {
        const char *end = memchr(data, '\n', length);
        size_t piece = end ? (size_t)(end - data) : length;
        int r = buffer_append(&lines->part, data, piece);
        if (r == 0 && end && !buffer_text(&lines->part))
            r = -ENOMEM;
        if (r < 0)
            return r;
        if (!end)
            return 0;
        data += piece + 1;
        length -= piece + 1;
        /* The next one has the room of this one, unless this one was large. */
        struct buffer line = lines->part;
        lines->part = BUFFER_LIMITED(line.limit);
        r = handler(line.data, line.length, user);
        buffer_free(&line);
        if (r != 0)
            return r;
    }
    return 0;
}

void lines_free(struct lines *lines)
{
    buffer_free(&lines->part);
}
