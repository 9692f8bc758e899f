/* One execution: the code, what it has put out so far, and, when it is over, the answer. How far it is is the
 * executor's business (executor.h); how it looks to the caller is decided here. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/id.h"
#include "husk/limits.h"
#include "husk/shim_protocol.h"
#include "loop/loop.h"
#include "shim/answer.h"
#include "shim/connection.h"
#include "shim/event_stream.h"
#include "shim/home_changes.h"
#include "shim/input.h"
#include "shim/order.h"
#include "shim/outputs.h"
#include "shim/question.h"
#include "shim/tool_answer.h"
#include "wire/message.h"

enum stop_reason {
    STOP_NONE,
    STOP_TIMEOUT,   /* its time is over */
    STOP_INTERRUPT, /* somebody asked for it */
};

/* Ways in which an execution can end. */
enum ending {
    ENDING_COMPLETE,      /* reply and idle */
    ENDING_NO_REPLY,      /* idle, but no reply; and the kernel answers questions */
    ENDING_NO_IDLE,       /* reply, but no idle: output may be missing; the same */
    ENDING_SILENT,        /* only one of the two, and the kernel answers nothing: it is replaced */
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
    char id[ID_TEXT_SIZE]; /* of a detached one; "": the caller waits */
    json_t *code;
    json_t *env; /* NULL: none */
    bool colours;
    bool auto_install;
    uint64_t timeout_ms;
    struct timer *deadline;
    uint64_t number; /* of its execute_request; 0: not sent yet */
    uint64_t started_at;
    struct home_mark began; /* the same, for the files */
    uint64_t oom_kills;     /* when it began */
    bool replied;
    bool idle;
    bool overdue;        /* its time ran out after the reply */
    bool state_was_lost; /* before it began, and nobody was told yet */
    enum stop_reason stop;
    struct input input;
    struct event_stream *stream; /* either this, borrowed, … */
    struct answer *answer;       /* … or this, … */
    struct tool_answer *tool;    /* … or this is where the output goes */
    struct timer *progress;      /* `tool`: armed if somebody wants to know; NULL: nobody does */
    uint64_t accepted_at;
    struct outputs *outputs;
    json_t *files;             /* what it created or changed, once it is over */
    bool files_truncated;      /* there may be more */
    struct question *question; /* what is asked instead of running code; NULL: nothing */
    struct buffer reply;       /* the answer to that; empty: none yet, or none that can be used */
    struct ticket interrupts[MAX_WAITING_REQUESTS]; /* who waits for its end */
    size_t interrupt_count;
};

/* Takes references of what it needs of the order. `stream` is NULL unless the order wants one. The deadline is not armed yet. */
struct execution *execution_new(const struct order *order, struct event_stream *stream);
struct execution *execution_free(struct execution *execution); /* NULL ok, returns NULL */

/* Type, content and metadata of its request; new references, NULL when memory is out. The metadata are for our kernel: what
 * the protocol has no place for. */
const char *execution_request_type(const struct execution *execution);
json_t *execution_request(const struct execution *execution);
json_t *execution_metadata(const struct execution *execution);

/* Take in a message of the shell channel: is it the reply? */
bool execution_take_reply(struct execution *execution, const struct message *message);

enum {
    VERDICT_TEXT_SIZE = 512
};

/* How it ended, in the words of API.md. `detail` is for ENDING_DIED ("was killed by SIGKILL") and ENDING_NO_KERNEL (a
 * sentence), else NULL. `text` holds what the verdict points to. */
struct verdict execution_judge(struct execution *execution, enum ending ending, const char *detail,
                               char text[VERDICT_TEXT_SIZE]);
/* The same for one that is not over. */
struct verdict execution_progress(const struct execution *execution);

/* See which files it created or changed: when it is over, and before anything else runs. */
void execution_collect_files(struct execution *execution, struct home_changes *changes);
/* Append struct shim_result_head and the JSON text of the answer. If that does not fit, or memory is out, the output is left
 * out instead. */
void execution_render(struct execution *execution, const struct verdict *verdict,
                      struct buffer *payload);
/* The last events of its stream, which is given away. */
void execution_end_stream(struct execution *execution, const struct verdict *verdict);

/* The same for a question: append struct shim_result_head and the answer; or, if there is none, NULL and nothing: give what
 * to reject it with, a code, and in `text` a sentence. */
const char *execution_answer_question(const struct execution *execution, enum ending ending,
                                      const char *detail, struct buffer *payload,
                                      char text[VERDICT_TEXT_SIZE]);

/* For an MCP tool: append what a progress notification says now. */
void execution_tell_progress(const struct execution *execution, struct buffer *out);

/* Are the variables lost with it? */
bool ending_loses_state(enum ending ending);
/* Is the kernel to be replaced after this ending? */
bool ending_replaces_kernel(enum ending ending);
