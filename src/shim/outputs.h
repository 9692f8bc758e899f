/* Makes sense of what a kernel says during one execution: which of it is output, what replaces or clears what, whether
 * there was an error. The output itself goes to a recorder. Pure; every amount is bounded (husk/limits.h), and what is
 * beyond sets `truncated`.
 *
 * Life: outputs_new → outputs_add, outputs_reply … → outputs_describe → outputs_free. Nothing here trusts the content: a
 * member of the wrong type counts as absent. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "husk/shim_protocol.h"
#include "shim/recorder.h"

struct outputs;

/* Borrows the recorder. `colours`: leave terminal escapes in tracebacks. */
struct outputs *outputs_new(struct recorder *recorder, bool colours);
struct outputs *outputs_free(struct outputs *outputs); /* NULL ok, returns NULL */

/* A message of iopub, by its msg_type; types that are no output are ignored. `content` is borrowed;
 * NULL: it was there, but could not be read. */
void outputs_add(struct outputs *outputs, const char *type, const json_t *content);
/* The content of execute_reply, NULL as above. It may overtake output, which comes by another socket. */
void outputs_reply(struct outputs *outputs, json_t *content);
/* No more will come. If the code failed and no output has told of it, the reply does. */
void outputs_close(struct outputs *outputs);
/* Something got lost. */
void outputs_mark_truncated(struct outputs *outputs);

/* What the kernel should call this execution, which it may not live to say. */
void outputs_expect_count(struct outputs *outputs, int64_t count);

bool outputs_has_error(const struct outputs *outputs);
int64_t outputs_execution_count(const struct outputs *outputs); /* -1: not known */

/* What became of the execution, by the judgement of whoever watched it. */
struct verdict {
    enum execution_status status;
    const char *error;       /* NULL: what the kernel reported */
    const char *error_value; /* goes with `error` */
    bool state_lost;
    uint64_t duration_ms;
};

/* As an answer calls it. */
const char *execution_status_name(enum execution_status status);
/* Set "error" and "error_value", or "status" and all that stands behind the outputs in an answer. 0 or -ENOMEM. */
int outputs_describe_error(const struct outputs *outputs, const struct verdict *verdict,
                           json_t *object);
int outputs_describe_end(const struct outputs *outputs, const struct verdict *verdict,
                         json_t *object);
