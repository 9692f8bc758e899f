#include "command/mcp_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/fdio.h"
#include "husk/limits.h"

enum {
    READ_BYTES = 64 * KIB
};

static int unblock(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && !isatty(fd))
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    return flags;
}

void lines_open(struct lines *lines)
{
    *lines = (struct lines){0};
    lines->input_flags = unblock(STDIN_FILENO);
    lines->output_flags = unblock(STDOUT_FILENO);
}

void lines_close(struct lines *lines)
{
    lines_flush(lines);
    if (lines->input_flags >= 0)
        (void)fcntl(STDIN_FILENO, F_SETFL, lines->input_flags);
    if (lines->output_flags >= 0)
        (void)fcntl(STDOUT_FILENO, F_SETFL, lines->output_flags);
    buffer_free(&lines->input);
    buffer_free(&lines->output);
}

/* --- in ----------------------------------------------------------------------------------------- */

static void drop_given(struct lines *lines)
{
    buffer_consume(&lines->input, lines->given);
    lines->looked -= lines->given;
    lines->given = 0;
}

void lines_read(struct lines *lines)
{
    drop_given(lines);
    char *place = buffer_reserve(&lines->input, READ_BYTES);
    ssize_t got = place ? read_some(STDIN_FILENO, place, READ_BYTES) : -ENOMEM;
    if (got > 0)
        buffer_grow(&lines->input, (size_t)got);
    else if (got != -EAGAIN) /* the end, or an error that is the same to us */
        lines->ended = true;
}

/* What there is of a line that has no end yet. */
static enum line_kind take_rest(struct lines *lines, const char **text, size_t *length)
{
    *text = lines->input.data + lines->given;
    *length = lines->input.length - lines->given;
    lines->looked = lines->input.length;
    bool long_one = *length > MAX_BRIDGE_LINE_BYTES;
    if (!lines->ended && !lines->skipping && !long_one)
        return LINE_NONE;
    bool told = lines->skipping;
    lines->skipping = !lines->ended;
    lines->given = lines->looked;
    if (told || *length == 0)
        return LINE_NONE;
    return long_one ? LINE_TOO_LONG : LINE_GOOD;
}

enum line_kind lines_next(struct lines *lines, const char **text, size_t *length)
{
    for (;;) {
        const char *from = lines->input.data + lines->looked;
        const char *end = lines->input.length > lines->looked
                              ? memchr(from, '\n', lines->input.length - lines->looked)
                              : NULL;
        if (!end)
            return take_rest(lines, text, length);
        *text = lines->input.data + lines->given;
        *length = (size_t)(end - *text);
        lines->given = lines->looked = (size_t)(end - lines->input.data) + 1;
        bool rest = lines->skipping;
        lines->skipping = false;
        if (*length > 0 && (*text)[*length - 1] == '\r')
            (*length)--;
        if (rest || *length == 0)
            continue;
        return *length > MAX_BRIDGE_LINE_BYTES ? LINE_TOO_LONG : LINE_GOOD;
    }
}

/* --- out ---------------------------------------------------------------------------------------- */

void lines_write(struct lines *lines, const char *text, size_t length)
{
    char *place = lines->broken ? NULL : buffer_reserve(&lines->output, length + 1);
    if (!place)
        return;
    for (size_t i = 0; i < length; i++)
        place[i] = text[i] == '\n' || text[i] == '\r' ? ' ' : text[i];
    place[length] = '\n';
    buffer_grow(&lines->output, length + 1);
    lines_flush(lines);
}

void lines_flush(struct lines *lines)
{
    while (lines->written < lines->output.length && !lines->broken) {
        ssize_t put = write_some(STDOUT_FILENO, lines->output.data + lines->written,
                                 lines->output.length - lines->written);
        if (put == -EAGAIN)
            return;
        if (put < 0)
            lines->broken = true;
        else
            lines->written += (size_t)put;
    }
    /* A large answer is not kept for the next one. */
    buffer_free(&lines->output);
    lines->written = 0;
}

size_t lines_waiting(const struct lines *lines)
{
    return lines->output.length - lines->written;
}
