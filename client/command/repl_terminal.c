#include "command/repl_terminal.h"

#include <errno.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/fdio.h"
#include "husk/limits.h"

static struct termios usual;
static bool hushed;

/* Ctrl-D is the end of input when something is asked for. Else it is a key that waits for the prompt: as the end of a line that nobody
 * reads it would be lost. */
static void set_mode(bool echo, bool asks)
{
    struct termios wanted = usual;
    wanted.c_lflag |= ICANON | ISIG;
    if (!echo)
        wanted.c_lflag &= ~(tcflag_t)(ECHO | ECHONL);
    if (!asks)
        wanted.c_cc[VEOF] = _POSIX_VDISABLE;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &wanted);
}

void terminal_hush(void)
{
    if (hushed || tcgetattr(STDIN_FILENO, &usual) < 0)
        return;
    hushed = true;
    set_mode(false, false);
}

void terminal_unhush(void)
{
    if (hushed)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &usual);
    hushed = false;
}

/* Byte for byte: what follows the line is for whoever reads next. */
static char *read_line(int stop, bool *stopped)
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
        if (got < 0 || (got == 0 && line.length == 0))
            return NULL;
        if (got == 0 || byte == '\n')
            return buffer_take(&line);
        if (buffer_append(&line, &byte, 1) < 0)
            return NULL;
    }
}

void terminal_ask_begin(bool password)
{
    if (hushed)
        set_mode(!password, true);
}

char *terminal_ask(int stop, bool *stopped)
{
    *stopped = false;
    char *line = read_line(stop, stopped);
    if (hushed)
        set_mode(false, false);
    return line;
}
