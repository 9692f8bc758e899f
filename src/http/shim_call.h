/* What routes share that ask the shim of a sandbox for something and wait for its answer. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "http/stream.h"
#include "husk/limits.h"
#include "huskd/shim_client.h"

struct request;

enum {
    PATIENCE_MS = SHIM_PATIENCE_SECONDS * 1000
};

/* Send it to the shim of request->sandbox and wait; the callbacks get the request as `user`. The payload is a text. A caller
 * that goes away meanwhile is forgotten. */
void shim_call(struct request *request, enum shim_type type, struct shim_request message);
/* The same for something that runs: an answer of its own kind, or a stream. */
void shim_call_run(struct request *request, enum shim_type type, struct shim_request message,
                   enum stream_kind kind);

/* Callbacks: answer with the JSON that came; the same for what can be fetched again, and need not be held when there is no
 * room; 202 with the JSON that came; {"status": "success"}. */
void shim_call_answer(const struct shim_answer *answer, void *request);
void shim_call_answer_fetched(const struct shim_answer *answer, void *request);
void shim_call_answer_accepted(const struct shim_answer *answer, void *request);
void shim_call_answer_done(const struct shim_answer *answer, void *request);

/* An answer stays in memory until its client has read it, and many of 24 MiB may wait for clients that do not. False: there are
 * enough of them, and that is answered. */
bool has_room_for_answer(struct request *request);
void answer_out_of_memory(struct request *request);
