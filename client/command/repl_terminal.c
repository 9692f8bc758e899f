#include "command/repl_terminal.h"

#include <termios.h>
#include <unistd.h>

#include "command/terminal.h"

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

void terminal_listen(bool password)
{
    if (hushed)
        set_mode(!password, true);
}

char *terminal_ask(int stop, bool *stopped)
{
    *stopped = false;
    char *line = terminal_read_until(stop, stopped);
    if (hushed)
        set_mode(false, false);
    return line;
}
