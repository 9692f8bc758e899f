/* Calls whose answer is a stream: JSON lines, each an event (API.md "Running code"). Each becomes a struct husk_event for the
 * caller's function; the last one, `end`, becomes what the call gives back. A stream that ends without one is broken. */
#pragma once

#include "library/answers.h"

struct events_call {
    husk_on_event on_event; /* NULL: nobody listens */
    void *user;
    /* Reads the last event; its `read` gets what the stream had before it through events_note. */
    const struct answer_shape *shape;
};

/* What earlier events said and the last one does not repeat. */
struct events_note {
    char *traceback;
    char *command_id;
    struct buffer lines; /* of an install */
};

/* Runs `exchange`; accept and sink are set here. *ret: a gift of the shape; `note` is the caller's to free. */
int events_run(struct husk *husk, const struct exchange *exchange, const struct events_call *call,
               struct events_note *note, void **ret, struct husk_error *error);
void events_note_free(struct events_note *note);
/* For code and commands. */
int events_run_result(struct husk *husk, const struct exchange *exchange, husk_on_event on_event,
                      void *user, struct husk_result **ret, struct husk_error *error);
