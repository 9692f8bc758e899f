/* Forms: the first byte says how large the pieces are in which the rest comes. Whatever they are, the same is seen. */
#include "fuzz.h"

#include "base/buffer.h"
#include "http/multipart.h"

struct seen {
    struct buffer text;
    bool failed;
};

static bool on_part(const struct multipart_part *part, void *user)
{
    struct seen *seen = user;
    check(strlen(part->name) < sizeof part->name &&
          strlen(part->file_name) < sizeof part->file_name);
    seen->failed |=
        buffer_printf(&seen->text, "\n[%s|%s|%d]", part->name, part->file_name, part->is_file) < 0;
    return true;
}

static bool on_data(const char *data, size_t length, void *user)
{
    struct seen *seen = user;
    seen->failed |= buffer_append(&seen->text, data, length) < 0;
    return true;
}

/* What was seen, and how it ended. */
static ssize_t feed(struct seen *seen, const char *data, size_t size, size_t piece)
{
    const struct multipart_events events = {.part = on_part, .data = on_data, .user = seen};
    struct multipart *form = multipart_new("XX", &events);
    ssize_t r = 0;
    for (size_t at = 0; form && r >= 0 && at < size; at += (size_t)r) {
        size_t length = size - at < piece ? size - at : piece;
        r = multipart_feed(form, data + at, length);
        check(r < 0 || (size_t)r == length);
    }
    bool complete = form && r >= 0 && multipart_complete(form);
    seen->failed |= !form || buffer_printf(&seen->text, "\n(%d)", complete) < 0;
    multipart_free(form);
    return r < 0 ? r : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {(const char *)data, size};
    size_t piece = next_byte(&input) + 1;
    struct seen whole = {0}, pieces = {0};
    ssize_t one = feed(&whole, input.data, input.left, input.left + 1);
    ssize_t other = feed(&pieces, input.data, input.left, piece);
    if (!memory_is_short && !whole.failed && !pieces.failed) {
        check(one == other);
        check(one < 0 || (whole.text.length == pieces.text.length &&
                          !memcmp(whole.text.data, pieces.text.data, whole.text.length)));
    }
    buffer_free(&whole.text);
    buffer_free(&pieces.text);
    return 0;
}
