#include "mcp/listing.h"

#include "base/text.h"

void listing_free(struct listing *listing)
{
    buffer_free(&listing->text);
}

void listing_add(struct listing *listing, const char *data, size_t length)
{
    size_t room = listing->limit - listing->text.length;
    if (listing->cut)
        return;
    if (buffer_append(&listing->text, data, length < room ? length : room) < 0 || length > room)
        listing->cut = listing->incomplete = true;
}

bool listing_entries(const struct listing *listing, const char **ret, size_t *ret_length)
{
    const char *text = listing->text.data;
    size_t length = listing->text.length;
    char last = listing->cut ? '\n' : ']';
    while (length > 0 && text[length - 1] != last)
        length--;
    length -= length > 0;
    if (length > 0 && text[length - 1] == ',')
        length--;
    if (length == 0 || *text != '[' || !utf8_valid(text, length))
        return false;
    *ret = text + 1;
    *ret_length = length - 1;
    return true;
}

/* In a stream of events a line end would begin something else. In JSON, outside of strings, it is but a space. */
int listing_append(struct buffer *out, const char *entries, size_t length)
{
    size_t start = out->length;
    int r = buffer_append(out, entries, length);
    for (size_t i = start; r == 0 && i < out->length; i++) {
        if (out->data[i] == '\n' || out->data[i] == '\r')
            out->data[i] = ' ';
    }
    return r;
}
