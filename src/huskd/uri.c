#include "huskd/uri.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

static int decode(const char *text, size_t length, bool plus_is_space, char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '%') {
            bool whole = length - i > 2;
            int high = whole ? hex_digit(text[i + 1]) : -1;
            int low = whole ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return -EINVAL;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (c == '\0')
            return -EINVAL;
        if (used + 1 >= size)
            return -ENAMETOOLONG;
        out[used++] = c;
    }
    out[used] = '\0';
    return utf8_valid(out, used) ? (int)used : -EINVAL;
}

int uri_decode(const char *text, size_t length, char *out, size_t size)
{
    return decode(text, length, false, out, size);
}

int uri_query(const char *query, const char *key, char *out, size_t size)
{
    size_t key_length = strlen(key);
    for (const char *at = query; at && *at;) {
        size_t length = strcspn(at, "&");
        if (length >= key_length && !strncmp(at, key, key_length) &&
            (length == key_length || at[key_length] == '=')) {
            size_t start = length == key_length ? length : key_length + 1;
            int r = decode(at + start, length - start, true, out, size);
            return r < 0 ? r : 1;
        }
        at += length;
        at += *at == '&';
    }
    return 0;
}
