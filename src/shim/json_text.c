#include "shim/json_text.h"

#include <errno.h>
#include <string.h>

struct sink {
    struct buffer *out;
    int failed;
};

/* jansson does not look whether the key of an object could be written, and goes on with what may fit again: so after one
 * failure there are only failures. */
static int append(const char *bytes, size_t length, void *user)
{
    struct sink *sink = user;
    if (sink->failed == 0)
        sink->failed = buffer_append(sink->out, bytes, length);
    return sink->failed;
}

int json_text_append(const json_t *json, size_t flags, struct buffer *out)
{
    struct sink sink = {.out = out};
    size_t before = out->length;
    int r = json_dump_callback(json, append, &sink, flags);
    if (r == 0 && sink.failed == 0)
        return 0;
    out->length = before;
    return sink.failed ? sink.failed : -ENOMEM;
}

int json_text_append_members(const json_t *object, struct buffer *out)
{
    size_t brace = out->length;
    int r = json_text_append(object, JSON_COMPACT, out);
    if (r < 0)
        return r;
    out->length -= 2;
    memmove(out->data + brace, out->data + brace + 1, out->length - brace);
    return 0;
}
