#include "shim/utf8_mender.h"

#include <stdbool.h>
#include <string.h>

#include "base/attributes.h"
#include "base/text.h"

enum {
    LONGEST_CHARACTER = 4
};

#define REPLACEMENT "\xef\xbf\xbd"

/* Could more bytes make one character of these? Some second byte does, if any does. */
static bool begins_character(const char *bytes, size_t length)
{
    static const char seconds[] = {'\x80', '\x90', '\xa0'};
    for (size_t i = 0; i < sizeof seconds; i++) {
        char whole[LONGEST_CHARACTER] = {0, seconds[i], '\x80', '\x80'};
        memcpy(whole, bytes, length);
        if (utf8_prefix(whole, sizeof whole) > length)
            return true;
    }
    return false;
}

/* As many bytes as one replacement stands for: the longest beginning of a character, or one byte. */
static size_t broken_length(const char *bytes, size_t length)
{
    size_t broken = 1;
    while (broken < length && broken < LONGEST_CHARACTER - 1 && begins_character(bytes, broken + 1))
        broken++;
    return broken;
}

/* How many of the bytes were dealt with: all, or all but the beginning of a character. */
static int mend(const char *bytes, size_t length, struct buffer *out, size_t *ret_used)
{
    size_t at = 0;
    while (at < length) {
        size_t good = utf8_prefix(bytes + at, length - at);
        int r = buffer_append(out, bytes + at, good);
        if (r < 0)
            return r;
        at += good;
        size_t rest = length - at;
        if (rest == 0 || (rest < LONGEST_CHARACTER && begins_character(bytes + at, rest)))
            break;
        r = buffer_append_text(out, REPLACEMENT);
        if (r < 0)
            return r;
        at += broken_length(bytes + at, rest);
    }
    *ret_used = at;
    return 0;
}

int utf8_mender_feed(struct utf8_mender *mender, const char *bytes, size_t length,
                     struct buffer *out)
{
    _cleanup_buffer_ struct buffer joined = {0};
    if (mender->held_length > 0) {
        int r = buffer_append(&joined, mender->held, mender->held_length);
        if (r == 0)
            r = buffer_append(&joined, bytes, length);
        if (r < 0)
            return r;
        bytes = joined.data;
        length = joined.length;
    }
    size_t used = 0;
    int r = mend(bytes, length, out, &used);
    if (r < 0)
        return r;
    mender->held_length = length - used;
    memcpy(mender->held, bytes + used, mender->held_length);
    return 0;
}

int utf8_mender_end(struct utf8_mender *mender, struct buffer *out)
{
    size_t held = mender->held_length;
    mender->held_length = 0;
    return held > 0 ? buffer_append_text(out, REPLACEMENT) : 0;
}
