#include "base/quoted.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
    ESCAPE_SIZE = sizeof "\\u0000",
    HEX_DIGITS = 4,
};

static bool is_special(char c)
{
    return (unsigned char)c < ' ' || c == '"' || c == '\\';
}

/* The length of the piece in front of the next special character. */
static size_t plain_length(const char *text, size_t length)
{
    size_t i = 0;
    while (i < length && !is_special(text[i]))
        i++;
    return i;
}

/* Letters of the short escapes, and what they stand for. */
static const char letters[] = "\"\\/bfnrt";
static const char meanings[] = "\"\\/\b\f\n\r\t";

static int append_escaped(struct buffer *out, char c)
{
    const char *found = strchr(meanings, c);
    if (c != '\0' && found)
        return buffer_append(out, (char[]){'\\', letters[found - meanings]}, 2);
    char escape[ESCAPE_SIZE];
    (void)snprintf(escape, sizeof escape, "\\u%04x", (unsigned)(unsigned char)c);
    return buffer_append(out, escape, ESCAPE_SIZE - 1);
}

int quoted_append(struct buffer *out, const char *text, size_t length)
{
    int r = buffer_append(out, "\"", 1);
    for (size_t at = 0; at < length && r == 0;) {
        size_t plain = plain_length(text + at, length - at);
        r = buffer_append(out, text + at, plain);
        at += plain;
        if (at < length && r == 0)
            r = append_escaped(out, text[at++]);
    }
    return r == 0 ? buffer_append(out, "\"", 1) : r;
}

/* The character of \u00XX below 0x80, or -EBADMSG. */
static int decode_hex(const char *digits)
{
    int value = 0;
    for (int i = 0; i < HEX_DIGITS; i++) {
        static const char known[] = "0123456789abcdef0123456789ABCDEF";
        const char *found = digits[i] ? strchr(known, digits[i]) : NULL;
        if (!found)
            return -EBADMSG;
        value = value * 16 + (int)((found - known) % 16);
    }
    return value < 0x80 ? value : -EBADMSG;
}

ssize_t quoted_decode(const char *literal, size_t length, char *out)
{
    size_t written = 0;
    for (size_t at = 0; at < length;) {
        size_t plain = plain_length(literal + at, length - at);
        memcpy(out + written, literal + at, plain);
        written += plain;
        at += plain;
        if (at == length)
            break;
        if (literal[at] != '\\' || length - at < 2)
            return -EBADMSG;
        char letter = literal[at + 1];
        const char *found = letter ? strchr(letters, letter) : NULL;
        if (found) {
            out[written++] = meanings[found - letters];
            at += 2;
            continue;
        }
        int c = letter == 'u' && length - at >= 2 + HEX_DIGITS ? decode_hex(literal + at + 2) : -1;
        if (c < 0)
            return -EBADMSG;
        out[written++] = (char)c;
        at += 2 + HEX_DIGITS;
    }
    return (ssize_t)written;
}
