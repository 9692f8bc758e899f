/* Ctrl-C while a cell runs. The thread of the prompt waits in the library for what the cell says; a second one, which lives as long as the cell,
 * takes the signals (repl_signal.h), and a third one, the sender, waits for an interrupt to be answered, with a client of its
 * own:
 *
 * - The first Ctrl-C interrupts what runs. The service does the rest: code that does not stop within 2 s gets a signal, 2 s later its kernel is
 *   replaced, and the result says that variables are lost. So a second Ctrl-C needs not do more, and does not: pressing it twice in a hurry
 *   never costs a variable. It says that this is under way.
 * - While the cell still waits behind somebody else's, an interrupt would hit that one: then the call is given up, and the cell never runs.
 * - If the service cannot be reached, or the cell has not ended INTERRUPT_PATIENCE seconds after the first Ctrl-C, the next one gives the call up, too.
 * - A signal that asks the program to end gives it up at once; the service interrupts the cell of a caller that is gone. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct husk;

enum {
    INTERRUPT_PATIENCE = 8 /* seconds */
};

struct interrupter {
    struct husk *running;   /* the client that is cancelled */
    struct husk *messenger; /* the client that interrupts */
    const char *sandbox;
    pthread_t thread, sender;
    int over; /* written when the cell has ended */
    int came; /* readable since the first Ctrl-C */
    atomic_bool started;
    atomic_bool given_up; /* the call was cancelled */
    atomic_bool sending;  /* the sender waits for an answer */
    bool sender_there;    /* it is to be joined */
    uint64_t first;       /* when the interrupt was sent */
};

/* All of it is borrowed until interrupter_end(). 0 or -errno. */
int interrupter_begin(struct interrupter *interrupter, struct husk *running, struct husk *messenger,
                      const char *sandbox);
/* What runs from now on is the cell, or an earlier one of ours. */
void interrupter_started(struct interrupter *interrupter);
/* Readable: there is no point in waiting for a line that input() wants. */
int interrupter_descriptor(const struct interrupter *interrupter);
/* The cell has ended. True: its call was given up; if it ended by itself all the same, the next call of that client ends as cancelled. */
bool interrupter_end(struct interrupter *interrupter);
