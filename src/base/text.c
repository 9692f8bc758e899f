#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Length of the well-formed character at `data`, 0 if there is none (overlong, surrogate, cut off,
 * …). */
static size_t character_length(const unsigned char *data, size_t length)
{
    static const struct {
        unsigned char first_low, first_high, second_low, second_high;
        size_t length;
    } forms[] = {
        {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
        {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
        {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    if (data[0] < 0x80)
        return 1;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (data[0] < forms[i].first_low || data[0] > forms[i].first_high)
            continue;
        if (length < forms[i].length || data[1] < forms[i].second_low ||
            data[1] > forms[i].second_high)
            return 0;
        for (size_t k = 2; k < forms[i].length; k++) {
            if ((data[k] & 0xc0) != 0x80)
                return 0;
        }
        return forms[i].length;
    }
    return 0;
}

size_t utf8_prefix(const char *data, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)data;
    size_t at = 0;
    for (size_t step; at < length && (step = character_length(bytes + at, length - at)) > 0;)
        at += step;
    return at;
}

bool utf8_valid(const char *data, size_t length)
{
    return utf8_prefix(data, length) == length;
}

size_t utf8_count(const char *data, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += ((unsigned char)data[i] & 0xc0) != 0x80;
    return count;
}

size_t utf8_cut(const char *data, size_t length, size_t limit)
{
    if (length <= limit)
        return length;
    while (limit > 0 && ((unsigned char)data[limit] & 0xc0) == 0x80)
        limit--;
    return limit;
}

int parse_u64(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *ret)
{
    if (text[0] < '0' || text[0] > '9')
        return -EINVAL;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*end)
        return -EINVAL;
    if (errno || value < minimum || value > maximum)
        return -ERANGE;
    *ret = value;
    return 0;
}

int parse_double(const char *text, double minimum, double maximum, double *ret)
{
    if (strspn(text, "0123456789.") != strlen(text) || !*text)
        return -EINVAL;
    char *end;
    double value = strtod(text, &end);
    if (*end)
        return -EINVAL;
    if (!isfinite(value) || value < minimum || value > maximum)
        return -ERANGE;
    *ret = value;
    return 0;
}

int parse_bool(const char *text, bool *ret)
{
    static const char *const words[][2] = {
        {"no", "yes"}, {"false", "true"}, {"off", "on"}, {"0", "1"}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        for (int value = 0; value < 2; value++) {
            if (same_ignoring_case(text, words[i][value])) {
                *ret = value;
                return 0;
            }
        }
    }
    return -EINVAL;
}

bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool same_ignoring_case(const char *a, const char *b)
{
    return strcasecmp(a, b) == 0;
}

int format_text(char *out, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(out, size, format, arguments);
    va_end(arguments);
    return length < 0 || (size_t)length >= size ? -ENAMETOOLONG : 0;
}
