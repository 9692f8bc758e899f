#include "command/interruption.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "base/attributes.h"
#include "husk.h"

enum {
    IMPATIENT = 3,
    SIGNAL_BASE = 128
};

static struct husk *volatile cancelled;
static volatile sig_atomic_t caught, times;

static void on_signal(int number)
{
    struct husk *husk = cancelled;
    if (!caught)
        caught = number;
    times = times + 1;
    if (times >= IMPATIENT)
        _exit(SIGNAL_BASE + number);
    if (husk)
        husk_cancel(husk);
}

/* Not SA_RESTART: who waits for a key must notice. A signal that is ignored (nohup) stays so. */
void interruption_catch(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction before, action = {.sa_handler = on_signal};
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

int interruption_signal(void)
{
    return caught;
}

int interruption_status(void)
{
    return SIGNAL_BASE + caught;
}
