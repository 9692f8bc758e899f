#include "command/repl_interrupt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "command/repl_signal.h"
#include "husk.h"

static void raise_event(int event)
{
    uint64_t one = 1;
    (void)!write(event, &one, sizeof one);
}

static void say_underway(void)
{
    static const char line[] =
        "\nInterrupting. Code that does not stop within some seconds loses its kernel, and the "
        "variables with it.\n";
    write_all(STDERR_FILENO, line, sizeof line - 1);
}

static void give_up(struct interrupter *interrupter)
{
    atomic_store(&interrupter->given_up, true);
    husk_cancel(interrupter->running);
    if (atomic_load(&interrupter->sending))
        husk_cancel(interrupter->messenger);
}

/* Waits for the answer. A cancellation that came too late for an earlier cell's interrupt must not cost this one. */
static void *send_interrupt(void *user)
{
    struct interrupter *interrupter = user;
    struct husk_error error = {};
    int r;
    do
        r = husk_interrupt(interrupter->messenger, interrupter->sandbox, &error);
    while (r < 0 && error.kind == HUSK_ERROR_CANCELLED && !atomic_load(&interrupter->given_up));
    /* Refused: it has ended meanwhile. */
    if (r < 0 && error.kind != HUSK_ERROR_REFUSED && !atomic_load(&interrupter->given_up)) {
        atomic_store(&interrupter->given_up, true);
        husk_cancel(interrupter->running);
    }
    atomic_store(&interrupter->sending, false);
    return NULL;
}

static void join_sender(struct interrupter *interrupter)
{
    if (interrupter->sender_there)
        pthread_join(interrupter->sender, NULL);
    interrupter->sender_there = false;
}

static void begin_sending(struct interrupter *interrupter)
{
    join_sender(interrupter);
    interrupter->first = now_ms();
    atomic_store(&interrupter->sending, true);
    interrupter->sender_there =
        pthread_create(&interrupter->sender, NULL, send_interrupt, interrupter) == 0;
    if (!interrupter->sender_there)
        give_up(interrupter);
}

static void on_interrupt(struct interrupter *interrupter)
{
    raise_event(interrupter->came);
    if (!atomic_load(&interrupter->started))
        give_up(interrupter);
    else if (!atomic_load(&interrupter->sending))
        begin_sending(interrupter);
    else if (now_ms() - interrupter->first < INTERRUPT_PATIENCE * 1000)
        say_underway();
    else
        give_up(interrupter);
}

static void *work(void *user)
{
    struct interrupter *interrupter = user;
    for (;;) {
        struct pollfd ready[] = {{.fd = interrupter->over, .events = POLLIN},
                                 {.fd = signals_descriptor(), .events = POLLIN}};
        if (poll(ready, ARRAY_LENGTH(ready), -1) < 0 && errno != EINTR)
            return NULL;
        if (ready[0].revents)
            return NULL;
        int number = signals_take();
        if (signals_ended()) {
            raise_event(interrupter->came);
            give_up(interrupter);
            return NULL;
        }
        if (number == SIGINT)
            on_interrupt(interrupter);
    }
}

int interrupter_begin(struct interrupter *interrupter, struct husk *running, struct husk *messenger,
                      const char *sandbox)
{
    *interrupter = (struct interrupter){
        .running = running, .messenger = messenger, .sandbox = sandbox, .over = -1, .came = -1};
    interrupter->over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    interrupter->came = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r = interrupter->over < 0 || interrupter->came < 0 ? errno : 0;
    if (r == 0)
        r = pthread_create(&interrupter->thread, NULL, work, interrupter);
    if (r != 0) {
        close_fd(interrupter->over);
        close_fd(interrupter->came);
    }
    return -r;
}

void interrupter_started(struct interrupter *interrupter)
{
    atomic_store(&interrupter->started, true);
}

int interrupter_descriptor(const struct interrupter *interrupter)
{
    return interrupter->came;
}

bool interrupter_end(struct interrupter *interrupter)
{
    raise_event(interrupter->over);
    pthread_join(interrupter->thread, NULL);
    join_sender(interrupter);
    close_fd(interrupter->over);
    close_fd(interrupter->came);
    return atomic_load(&interrupter->given_up);
}
