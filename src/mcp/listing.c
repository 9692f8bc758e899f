#include "mcp/listing.h"

#include "base/text.h"

void listing_free(struct listing *listing)
{
    buffer_free(&listing->text);
}

/* Each entry has a line. With the first one the bracket in front goes, so another takes its place. */
static size_t skip(struct listing *listing, const char *data, size_t length)
{
    size_t at = 0;
    if (listing->skip > 0 && listing->text.length == 0 &&
        buffer_append_text(&listing->text, "[") < 0)
        listing->cut = listing->incomplete = true;
    for (; listing->skip > 0 && at < length; at++)
        listing->skip -= data[at] == '\n';
    return at;
}

void listing_add(struct listing *listing, const char *data, size_t length)
{
    size_t skipped = skip(listing, data, length);
    data += skipped;
    length -= skipped;
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

size_t listing_count(const char *entries, size_t length)
{
    size_t count = length > 0;
    for (size_t i = 0; i < length; i++)
        count += entries[i] == '\n';
    return count;
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
