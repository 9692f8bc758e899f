#include "command/mcp_events.h"

#include <string.h>

void events_init(struct events *events, size_t limit,
                 void (*on_data)(void *user, const char *data, size_t length), void *user)
{
    *events = (struct events){.line = BUFFER_LIMITED(limit),
                              .data = BUFFER_LIMITED(limit),
                              .on_data = on_data,
                              .user = user};
}

void events_free(struct events *events)
{
    buffer_free(&events->line);
    buffer_free(&events->data);
}

static void end_event(struct events *events)
{
    if (events->has_data)
        events->on_data(events->user, events->data.data ? events->data.data : "",
                        events->data.length);
    buffer_clear(&events->data);
    events->has_data = false;
}

static int take_line(struct events *events, const char *line, size_t length)
{
    static const char field[] = "data:";
    size_t name = strlen(field);
    if (length == 0) {
        end_event(events);
        return 0;
    }
    if (length < name || memcmp(line, field, name) != 0)
        return 0;
    name += length > name && line[name] == ' ';
    int r = events->has_data ? buffer_append(&events->data, "\n", 1) : 0;
    events->has_data = true;
    return r == 0 ? buffer_append(&events->data, line + name, length - name) : r;
}

/* The line's last part is here, in `bytes`; its first parts may have come before. */
static int end_line(struct events *events, const char *bytes, size_t length)
{
    if (events->line.length == 0)
        return take_line(events, bytes, length);
    int r = buffer_append(&events->line, bytes, length);
    if (r == 0)
        r = take_line(events, events->line.data, events->line.length);
    buffer_clear(&events->line);
    return r;
}

static size_t line_length(const char *bytes, size_t length)
{
    const char *feed = memchr(bytes, '\n', length);
    if (feed)
        length = (size_t)(feed - bytes);
    const char *carriage = memchr(bytes, '\r', length);
    return carriage ? (size_t)(carriage - bytes) : length;
}

int events_feed(struct events *events, const char *bytes, size_t length)
{
    int r = 0;
    while (length > 0 && r == 0) {
        if (events->returned && *bytes == '\n') {
            events->returned = false;
            bytes++;
            length--;
            continue;
        }
        events->returned = false;
        size_t part = line_length(bytes, length);
        if (part == length)
            return buffer_append(&events->line, bytes, length);
        r = end_line(events, bytes, part);
        events->returned = bytes[part] == '\r';
        bytes += part + 1;
        length -= part + 1;
    }
    return r;
}
