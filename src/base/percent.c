#include "base/percent.h"

#include <stdbool.h>
#include <string.h>

static bool unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("-._~", c) != NULL;
}

int percent_encode(const char *text, const char *kept, struct buffer *out)
{
    static const char digits[] = "0123456789ABCDEF";
    int r = 0;
    for (; *text && r >= 0; text++) {
        unsigned char c = (unsigned char)*text;
        char escaped[] = {'%', digits[c >> 4], digits[c & 15]};
        if (unreserved(*text) || strchr(kept, *text))
            r = buffer_append(out, text, 1);
        else
            r = buffer_append(out, escaped, sizeof escaped);
    }
    return r;
}
