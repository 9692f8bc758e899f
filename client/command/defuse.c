#include "command/defuse.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

enum {
    ESCAPE = 0x1b,
    DELETE = 0x7f
};

enum progress {
    UNDECIDED,
    PASSES,
    REFUSED
};

/* U+2400 … U+2421 are pictures of the control characters. */
static void append_picture(struct buffer *out, unsigned char byte)
{
    const char picture[] = {(char)0xe2, (char)0x90,
                            (char)(byte == DELETE ? 0xa1 : 0x80 + (byte & 0x1f))};
    (void)buffer_append(out, picture, sizeof picture);
}

static bool is_harmless(const struct defuse *defuse, unsigned char byte)
{
    bool layout = byte == '\n' || byte == '\r' || byte == '\t' || byte == '\b';
    return (layout && !defuse->one_line) || (byte >= ' ' && byte < DELETE);
}

/* ESC [ digits ; : then m or K. */
static enum progress look_at_sequence(const char *pending, size_t length)
{
    if (length == 1)
        return UNDECIDED;
    if (pending[1] != '[')
        return REFUSED;
    if (length == 2)
        return UNDECIDED;
    char last = pending[length - 1];
    if (last == 'm' || last == 'K')
        return PASSES;
    bool parameter = (last >= '0' && last <= '9') || last == ';' || last == ':';
    return parameter && length < DEFUSE_PENDING_BYTES ? UNDECIDED : REFUSED;
}

/* How long a character is that begins with this byte; 0: none does. */
static size_t character_length(unsigned char first)
{
    if (first >= 0xc2 && first < 0xe0)
        return 2;
    if (first >= 0xe0 && first < 0xf0)
        return 3;
    return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

static enum progress look_at_character(const char *pending, size_t length)
{
    size_t wanted = character_length((unsigned char)pending[0]);
    if (wanted == 0 || (length > 1 && ((unsigned char)pending[length - 1] & 0xc0) != 0x80))
        return REFUSED;
    if (length < wanted)
        return UNDECIDED;
    /* U+0080 … U+009F are control characters, as ESC and a letter are. */
    bool control = (unsigned char)pending[0] == 0xc2 && (unsigned char)pending[1] < 0xa0;
    return utf8_valid(pending, length) && !control ? PASSES : REFUSED;
}

static void take(struct defuse *defuse, char byte, struct buffer *out);

/* The first byte of what waits becomes a picture; the rest is looked at again. */
static void refuse(struct defuse *defuse, struct buffer *out)
{
    char rest[DEFUSE_PENDING_BYTES];
    size_t length = defuse->length - 1;
    memcpy(rest, defuse->pending + 1, length);
    if (defuse->pending[0] == ESCAPE)
        append_picture(out, ESCAPE);
    else
        (void)buffer_append_text(out, "\xef\xbf\xbd");
    defuse->length = 0;
    for (size_t i = 0; i < length; i++)
        take(defuse, rest[i], out);
}

static void take(struct defuse *defuse, char byte, struct buffer *out)
{
    unsigned char value = (unsigned char)byte;
    if (defuse->length == 0 && value < 0x80 && value != ESCAPE) {
        if (is_harmless(defuse, value))
            (void)buffer_append(out, &byte, 1);
        else
            append_picture(out, value);
        return;
    }
    defuse->pending[defuse->length++] = byte;
    bool sequence = defuse->pending[0] == ESCAPE;
    enum progress progress = sequence ? look_at_sequence(defuse->pending, defuse->length)
                                      : look_at_character(defuse->pending, defuse->length);
    if (sequence && defuse->one_line)
        progress = REFUSED;
    if (progress == REFUSED)
        refuse(defuse, out);
    if (progress != PASSES)
        return;
    (void)buffer_append(out, defuse->pending, defuse->length);
    defuse->coloured |= sequence;
    defuse->length = 0;
}

void defuse_text(struct defuse *defuse, const char *text, size_t length, struct buffer *out)
{
    for (size_t i = 0; i < length; i++)
        take(defuse, text[i], out);
}

void defuse_end(struct defuse *defuse, struct buffer *out)
{
    while (defuse->length > 0)
        refuse(defuse, out);
    if (defuse->coloured)
        (void)buffer_append_text(out, "\x1b[0m");
    defuse->coloured = false;
}
