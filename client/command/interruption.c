#include "command/interruption.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/attributes.h"
#include "husk.h"

enum {
    IMPATIENT = 3,
    SIGNAL_BASE = 128
};

static struct husk *volatile cancelled;
static volatile sig_atomic_t caught, times;
static int wake = -1;

static void on_signal(int number)
{
    struct husk *husk = cancelled;
    int kept = errno;
    if (!caught)
        caught = number;
    times = times + 1;
    if (times >= IMPATIENT)
        _exit(SIGNAL_BASE + number);
    if (husk)
        husk_cancel(husk);
    (void)!write(wake, &(uint64_t){1}, sizeof(uint64_t));
    errno = kept;
}

/* A signal that is ignored (nohup) stays so. SIGQUIT is one of them, for a terminal without echo must not stay so. */
void interruption_catch(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction before, action = {.sa_handler = on_signal};
    if (wake < 0)
        wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (size_t i = 0; i < ARRAY_LENGTH(signals); i++) {
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            (void)sigaction(signals[i], &action, NULL);
    }
    (void)signal(SIGPIPE, SIG_IGN);
}

void interruption_cancels(struct husk *husk)
{
    cancelled = husk;
}

int interruption_descriptor(void)
{
    return wake;
}

int interruption_signal(void)
{
    return caught;
}

int interruption_status(void)
{
    return SIGNAL_BASE + caught;
}
