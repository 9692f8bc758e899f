#include "library/base64.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    NO_DIGIT = -1,
    SPACE = -2,
    PADDING = -3
};

size_t base64_room(size_t length)
{
    return length / 4 * 3 + 3;
}

static int digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    if (c == '/')
        return 63;
    if (c == '=')
        return PADDING;
    return c == '\n' || c == '\r' || c == ' ' || c == '\t' ? SPACE : NO_DIGIT;
}

int base64_decode(const char *text, size_t length, char *out, size_t *ret_length)
{
    uint32_t bits = 0;
    size_t digits = 0, padding = 0, written = 0;
    for (size_t i = 0; i < length; i++) {
        int digit = digit_of(text[i]);
        if (digit == SPACE)
            continue;
        if (digit == PADDING) {
            padding++;
            continue;
        }
        if (digit == NO_DIGIT || padding > 0)
            return -EINVAL;
        bits = bits << 6 | (uint32_t)digit;
        if (digits++ % 4 > 0)
            out[written++] = (char)(bits >> (6 - 2 * ((digits - 1) % 4)) & 0xff);
    }
    size_t rest = digits % 4;
    if (rest == 1 || padding > 2 || (padding > 0 && (digits + padding) % 4 != 0))
        return -EINVAL;
    *ret_length = written;
    return 0;
}
