#include "command/repl_margin.h"

#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/fdio.h"
#include "base/memory.h"

static bool is_margin(wchar_t c)
{
    return c >= MARGIN_FIRST && c <= MARGIN_LAST;
}

void margin_set(struct margin *margin, const char *ascii)
{
    size_t length = 0;
    for (; length < MARGIN_WIDTH && ascii[length]; length++)
        margin->text[length] = MARGIN_FIRST + (ascii[length] & 0x7f);
    margin->text[length] = 0;
    margin->length = length;
}

void margin_continue(struct margin *margin, size_t width)
{
    static const char dots[] = "...: ";
    char text[MARGIN_WIDTH + 1];
    size_t length = width < sizeof dots - 1 ? sizeof dots - 1 : width;
    if (length > MARGIN_WIDTH)
        length = MARGIN_WIDTH;
    memset(text, ' ', length);
    memcpy(text + length - (sizeof dots - 1), dots, sizeof dots);
    margin_set(margin, text);
}

wchar_t *margin_strip(const wchar_t *shown, size_t length)
{
    wchar_t *text = malloc((length + 1) * sizeof *text);
    size_t count = 0;
    for (size_t i = 0; text && i < length; i++)
        if (!is_margin(shown[i]))
            text[count++] = shown[i];
    if (text)
        text[count] = 0;
    return text;
}

size_t margin_count(const wchar_t *shown, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += !is_margin(shown[i]);
    return count;
}

size_t margin_find(const wchar_t *shown, size_t length, size_t place)
{
    size_t i = 0, count = 0;
    while (i < length && (count < place || is_margin(shown[i])))
        count += !is_margin(shown[i++]);
    return i;
}

wchar_t *margin_add(const struct margin *margin, const wchar_t *text)
{
    size_t length = 0, lines = 0;
    for (; text[length]; length++)
        lines += text[length] == L'\n';
    wchar_t *shown = malloc((length + lines * margin->length + 1) * sizeof *shown);
    wchar_t *out = shown;
    for (size_t i = 0; shown && i < length; i++) {
        if (is_margin(text[i]))
            continue;
        *out++ = text[i];
        if (text[i] == L'\n')
            out = wmempcpy(out, margin->text, margin->length);
    }
    if (shown)
        *out = 0;
    return shown;
}

/* How many characters of margin stand there. */
static size_t run(const wchar_t *shown)
{
    size_t length = 0;
    while (is_margin(shown[length]))
        length++;
    return length;
}

static bool sound(const struct margin *margin, const wchar_t *shown)
{
    for (size_t i = 0; shown[i];) {
        size_t length = run(shown + i + 1);
        if (is_margin(shown[i]) || length != (shown[i] == L'\n' ? margin->length : 0))
            return false;
        i += 1 + length;
    }
    return true;
}

/* Only whole line breaks stay. The cursor is told in characters of the text without margins. */
static wchar_t *repaired(const struct margin *margin, const wchar_t *shown, size_t *cursor)
{
    size_t length = wcslen(shown), count = 0, place = 0;
    _cleanup_free_ wchar_t *text = malloc((length + 1) * sizeof *text);
    if (!text)
        return NULL;
    for (size_t i = 0; i < length; i++) {
        bool kept =
            !is_margin(shown[i]) && (shown[i] != L'\n' || run(shown + i + 1) == margin->length);
        if (kept) {
            place += i < *cursor;
            text[count++] = shown[i];
        }
    }
    text[count] = 0;
    wchar_t *whole = margin_add(margin, text);
    if (whole)
        *cursor = margin_find(whole, wcslen(whole), place);
    return whole;
}

bool margin_repair(const struct margin *margin, const wchar_t *shown, size_t before, size_t *cursor,
                   wchar_t **ret)
{
    *ret = NULL;
    if (!sound(margin, shown)) {
        *ret = repaired(margin, shown, cursor);
        return *ret;
    }
    size_t place = *cursor, rest = run(shown + place);
    if (rest == 0)
        return false;
    if (place >= before) {
        *cursor = place + rest;
    } else {
        while (place > 0 && shown[place] != L'\n')
            place--;
        *cursor = place;
    }
    return true;
}

/* --- the stream ----------------------------------------------------------------------------------- */

enum {
    MARGIN_BYTES = 4 /* of UTF-8 */
};

struct shower {
    int fd;
    bool colours, coloured;
    char begun[MARGIN_BYTES]; /* of a character of which more must come */
    size_t begun_length;
};

/* MARGIN_FIRST…MARGIN_LAST are F4 8F B8 80 … F4 8F B9 BF. */
static bool fits(const char *bytes, size_t length)
{
    static const unsigned char first[] = {0xF4, 0x8F, 0xB8, 0x80};
    static const unsigned char last[] = {0xF4, 0x8F, 0xB9, 0xBF};
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)bytes[i] < first[i] || (unsigned char)bytes[i] > last[i])
            return false;
    return true;
}

static void colour(struct shower *shower, struct buffer *out, bool on)
{
    if (shower->colours && shower->coloured != on)
        buffer_append_text(out, on ? "\033[32m" : "\033[0m");
    shower->coloured = on;
}

static void show(struct shower *shower, struct buffer *out, char byte)
{
    shower->begun[shower->begun_length++] = byte;
    if (!fits(shower->begun, shower->begun_length)) {
        colour(shower, out, false);
        buffer_append(out, shower->begun, shower->begun_length);
    } else if (shower->begun_length < MARGIN_BYTES) {
        return;
    } else {
        char ascii = (char)(((shower->begun[2] & 1) << 6) | (shower->begun[3] & 0x3f));
        colour(shower, out, true);
        buffer_append(out, &ascii, 1);
    }
    shower->begun_length = 0;
}

static ssize_t write_shown(void *user, const char *data, size_t length)
{
    struct shower *shower = user;
    _cleanup_buffer_ struct buffer out = {};
    for (size_t i = 0; i < length; i++)
        show(shower, &out, data[i]);
    /* libedit flushes whenever it waits: then nobody else must write in our colour. */
    if (shower->begun_length == 0)
        colour(shower, &out, false);
    return write_all(shower->fd, out.data, out.length) < 0 ? -1 : (ssize_t)length;
}

static int close_shown(void *user)
{
    free(user);
    return 0;
}

FILE *margin_stream(int fd, bool colours)
{
    struct shower *shower = must_alloc(sizeof *shower);
    *shower = (struct shower){.fd = fd, .colours = colours};
    FILE *stream = fopencookie(shower, "w",
                               (cookie_io_functions_t){.write = write_shown, .close = close_shown});
    if (!stream)
        free(shower);
    return stream;
}
