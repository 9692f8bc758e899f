#include "command/inline_image.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "command/base64.h"

enum {
    KITTY_CHUNK = 4096,   /* bytes of base64 in one sequence */
    MAX_DIMENSION = 10000 /* pixels, each way */
};

static const struct {
    const char *variable, *value; /* value NULL: any; a * at its end: that begins so */
    enum inline_protocol protocol;
} signs[] = {
    {"TMUX", NULL, INLINE_NONE},
    {"STY", NULL, INLINE_NONE},
    {"TERM", "screen*", INLINE_NONE},
    {"TERM", "tmux*", INLINE_NONE},
    {"TERM", "linux", INLINE_NONE},
    {"TERM", "dumb", INLINE_NONE},
    {"KITTY_WINDOW_ID", NULL, INLINE_KITTY},
    {"TERM", "xterm-kitty", INLINE_KITTY},
    {"TERM", "xterm-ghostty", INLINE_KITTY},
    {"TERM_PROGRAM", "ghostty", INLINE_KITTY},
    {"TERM_PROGRAM", "iTerm.app", INLINE_ITERM},
    {"TERM_PROGRAM", "WezTerm", INLINE_ITERM},
    {"TERM_PROGRAM", "mintty", INLINE_ITERM},
    {"LC_TERMINAL", "iTerm2", INLINE_ITERM},
};

static bool is_set(const char *variable, const char *value)
{
    const char *found = getenv(variable);
    if (!found || !*found || !value)
        return found && *found;
    size_t length = strlen(value);
    if (value[length - 1] == '*')
        return strncmp(found, value, length - 1) == 0;
    return strcmp(found, value) == 0;
}

enum inline_protocol inline_protocol_of_terminal(void)
{
    for (size_t i = 0; i < ARRAY_LENGTH(signs); i++)
        if (is_set(signs[i].variable, signs[i].value))
            return signs[i].protocol;
    return INLINE_NONE;
}

static uint32_t number_at(const unsigned char *data)
{
    return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
}

/* The signature, then IHDR with width and height. */
static bool is_png(const unsigned char *data, size_t length)
{
    static const unsigned char begin[] = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    enum {
        BEGIN = sizeof begin - 1
    };
    if (length < BEGIN + 8 || memcmp(data, begin, BEGIN) != 0)
        return false;
    uint32_t width = number_at(data + BEGIN), height = number_at(data + BEGIN + 4);
    return width > 0 && width <= MAX_DIMENSION && height > 0 && height <= MAX_DIMENSION;
}

static int append_kitty(struct buffer *out, const char *text, size_t length)
{
    for (size_t done = 0; done < length;) {
        size_t part = length - done < KITTY_CHUNK ? length - done : KITTY_CHUNK;
        int r = buffer_printf(out, "\033_G%sm=%d;%.*s\033\\", done ? "" : "a=T,f=100,q=2,",
                              done + part < length, (int)part, text + done);
        if (r < 0)
            return r;
        done += part;
    }
    return buffer_append_text(out, "\n");
}

int inline_image(enum inline_protocol protocol, const void *png, size_t length, struct buffer *out)
{
    if (protocol == INLINE_NONE || !is_png(png, length))
        return -EINVAL;
    size_t count;
    _cleanup_free_ char *text = base64_encode(png, length, &count);
    if (!text)
        return -ENOMEM;
    if (protocol == INLINE_KITTY)
        return append_kitty(out, text, count);
    int r = buffer_printf(out, "\033]1337;File=inline=1;size=%zu:", length);
    r = r < 0 ? r : buffer_append(out, text, count);
    return r < 0 ? r : buffer_append_text(out, "\a\n");
}
