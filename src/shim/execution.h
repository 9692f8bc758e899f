/* One execution: the code, what it has put out so far, and, when it is over, the answer. How far it is is the
 * executor's business (executor.h); how it looks to the caller is decided here. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "husk/limits.h"
#include "husk/shim_protocol.h"
#include "loop/loop.h"
#include "shim/connection.h"
#include "shim/outputs.h"

enum stop_reason {
    STOP_NONE,
    STOP_TIMEOUT,   /* its time is over */
    STOP_INTERRUPT, /* somebody asked for it */
};

/* Ways in which an execution can end. */
enum ending {
    ENDING_COMPLETE, /* reply and idle */
    ENDING_NO_REPLY, /* idle, but no reply */
    ENDING_NO_IDLE,  /* reply, but no idle: output may be missing */
    ENDING_SILENT, /* as before, and then the kernel said nothing at all any more: it is replaced */
    ENDING_UNSTOPPABLE,   /* it would not stop: the kernel is replaced */
    ENDING_UNREACHABLE,   /* the kernel does not even take requests: it is replaced */
    ENDING_DIED,          /* the kernel ended by itself */
    ENDING_OUT_OF_MEMORY, /* the same, for lack of memory */
    ENDING_RESTARTED,     /* somebody asked for a fresh kernel */
    ENDING_NOT_RUN,       /* it was still waiting */
    ENDING_NO_KERNEL,     /* no kernel can be had any more */
};

struct execution {
    struct execution *next; /* in the queue */
    struct ticket ticket;
    json_t *code;
    uint64_t timeout_ms;
    struct timer *deadline;
    uint64_t number; /* of its execute_request; 0: not sent yet */
    uint64_t started_at;
    uint64_t oom_kills; /* when it began */
    bool replied;
    bool idle;
    bool state_was_lost; /* before it began, and nobody was told yet */
    enum stop_reason stop;
    struct outputs *outputs;
    struct ticket interrupts[MAX_WAITING_REQUESTS]; /* who waits for its end */
    size_t interrupt_count;
};

/* `code` is a JSON string, a new reference is taken. The deadline is not armed yet. */
struct execution *execution_new(struct ticket ticket, json_t *code, uint64_t timeout_ms);
struct execution *execution_free(struct execution *execution); /* NULL ok, returns NULL */

/* Content of its execute_request; a new reference, NULL when memory is out. */
json_t *execution_request(const struct execution *execution);

/* Fill in the head and the JSON text of the answer. `detail` is for ENDING_DIED ("was killed by SIGKILL") and
 * ENDING_NO_KERNEL (a sentence), else NULL. When it does not fit or memory is out, the output is left out instead. */
void execution_answer(struct execution *execution, enum ending ending, const char *detail,
                      struct shim_result_head *head, struct buffer *json);

/* Is the kernel to be replaced after this ending? */
bool ending_replaces_kernel(enum ending ending);
