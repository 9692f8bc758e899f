#include "shim/plain_text.h"

#define ESCAPE '\x1b'
#define BELL   '\a'

/* Behind the end of the sequence that starts at text[at]; one that never ends takes the rest. Only
 * whole characters are skipped, so that UTF-8 stays UTF-8. */
static size_t skip_sequence(const char *text, size_t length, size_t at)
{
    at++;
    if (at == length)
        return at;
    char kind = text[at];
    if (kind == '[') { /* control sequence: up to its final byte */
        do
            at++;
        while (at < length && (text[at] < '@' || text[at] > '~'));
        return at < length ? at + 1 : at;
    }
    if (kind == ']' || kind == 'P' || kind == '_' || kind == '^') { /* string: up to BEL or ESC \ */
        do
            at++;
        while (at < length && text[at] != BELL && text[at] != ESCAPE);
        if (at + 1 < length && text[at] == ESCAPE && text[at + 1] == '\\')
            return at + 2;
        return at < length ? at + 1 : at;
    }
    if ((kind == '(' || kind == ')') && at + 1 < length && text[at + 1] > ' ') /* character set */
        return at + 2;
    return kind >= '(' && kind <= '~' ? at + 1 : at;
}

size_t plain_text_strip(const char *text, size_t length, char *out)
{
    size_t written = 0;
    for (size_t at = 0; at < length;) {
        if (text[at] == ESCAPE)
            at = skip_sequence(text, length, at);
        else
            out[written++] = text[at++];
    }
    return written;
}
