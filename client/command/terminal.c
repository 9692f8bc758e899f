#include "command/terminal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/fdio.h"
#include "command/interruption.h"
#include "husk/limits.h"

enum {
    USUAL_WIDTH = 80
};

unsigned terminal_width(int fd)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : USUAL_WIDTH;
}

bool terminal_can_move(int fd)
{
    const char *kind = getenv("TERM");
    return isatty(fd) && kind && *kind && strcmp(kind, "dumb") != 0;
}

bool terminal_has_colours(int fd)
{
    const char *unwanted = getenv("NO_COLOR");
    return terminal_can_move(fd) && !(unwanted && *unwanted);
}

/* The bytes of the character at `text`, and its columns. What is none is one column. */
static size_t measure(const char *text, size_t length, size_t *columns)
{
    wchar_t character;
    mbstate_t state = {};
    size_t bytes = mbrtowc(&character, text, length, &state);
    if (bytes == 0 || bytes > length) {
        *columns = 1;
        return 1;
    }
    int width = wcwidth(character);
    *columns = width < 0 ? 1 : (size_t)width;
    return bytes;
}

size_t terminal_columns(const char *text, size_t length)
{
    size_t columns = 0;
    for (size_t at = 0, width; at < length; columns += width)
        at += measure(text + at, length - at, &width);
    return columns;
}

size_t terminal_fitting(const char *text, size_t columns)
{
    size_t length = strlen(text), at = 0, used = 0;
    while (at < length) {
        size_t width, bytes = measure(text + at, length - at, &width);
        if (used + width > columns)
            break;
        used += width;
        at += bytes;
    }
    return at;
}

char *terminal_read_until(int stop, bool *stopped)
{
    _cleanup_buffer_ struct buffer line = BUFFER_LIMITED(MAX_STDIN_BYTES);
    for (;;) {
        struct pollfd ready[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = stop, .events = POLLIN}};
        char byte;
        if (poll(ready, ARRAY_LENGTH(ready), -1) < 0 && errno != EINTR)
            return NULL;
        *stopped = ready[1].revents;
        if (*stopped)
            return NULL;
        if (!ready[0].revents)
            continue;
        ssize_t got = read_some(STDIN_FILENO, &byte, 1);
        if (got == -EAGAIN)
            continue;
        if (got < 0 || (got == 0 && line.length == 0))
            return NULL;
        if (got == 0 || byte == '\n')
            return buffer_take(&line);
        if (buffer_append(&line, &byte, 1) < 0)
            return NULL;
    }
}

char *terminal_read_line(bool password)
{
    struct termios before, silent;
    bool hide = password && tcgetattr(STDIN_FILENO, &before) == 0;
    if (hide) {
        silent = before;
        silent.c_lflag &= ~(tcflag_t)ECHO;
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent);
    }
    bool stopped;
    char *line = terminal_read_until(interruption_descriptor(), &stopped);
    if (hide) {
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
        (void)write_all(STDERR_FILENO, "\n", 1);
    }
    return line;
}
