#include "command/repl_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"

static const int caught[] = {SIGINT, SIGWINCH, SIGTERM, SIGHUP, SIGQUIT};
static struct sigaction former[ARRAY_LENGTH(caught)], former_pipe;
static int ends[2] = {-1, -1};
static volatile sig_atomic_t ended;

static void note(int number)
{
    int kept = errno;
    unsigned char byte = (unsigned char)number;
    if (number == SIGTERM || number == SIGHUP || number == SIGQUIT)
        ended = number;
    /* A full pipe has enough of them. */
    (void)!write(ends[1], &byte, 1);
    errno = kept;
}

int signals_begin(void)
{
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    for (size_t i = 0; i < ARRAY_LENGTH(caught); i++)
        sigaction(caught[i], &action, &former[i]);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, &former_pipe);
    return 0;
}

void signals_end(void)
{
    for (size_t i = 0; i < ARRAY_LENGTH(caught); i++)
        sigaction(caught[i], &former[i], NULL);
    sigaction(SIGPIPE, &former_pipe, NULL);
    ends[0] = close_fd(ends[0]);
    ends[1] = close_fd(ends[1]);
}

void signals_catch_stop(bool on)
{
    struct sigaction action = {.sa_handler = on ? note : SIG_DFL, .sa_flags = SA_RESTART};
    sigaction(SIGTSTP, &action, NULL);
}

int signals_descriptor(void)
{
    return ends[0];
}

int signals_take(void)
{
    unsigned char byte;
    return read_some(ends[0], &byte, 1) == 1 ? byte : 0;
}

int signals_ended(void)
{
    return ended;
}
