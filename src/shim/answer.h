/* A recorder that keeps the output of an execution, in bounded memory, for one answer (API.md "Running code").
 *
 * Life: answer_new → (as a recorder) → answer_render → answer_free. */
#pragma once

#include <jansson.h>

#include "base/buffer.h"
#include "shim/outputs.h"
#include "shim/recorder.h"

struct answer;

struct answer *answer_new(void);
struct answer *answer_free(struct answer *answer); /* NULL ok, returns NULL */
struct recorder *answer_recorder(struct answer *answer);

/* What else is in an answer. Borrowed. */
struct answer_frame {
    const struct outputs *outputs;
    const struct verdict *verdict;
    json_t *files;            /* an array; NULL: not over yet, so nobody has looked */
    bool files_truncated;     /* there may be more of them */
    const char *execution_id; /* NULL: whoever asked has waited for the answer */
};

/* Append the JSON text to `out`. 0, -ENOSPC or -ENOMEM. */
int answer_render(const struct answer *answer, const struct answer_frame *frame,
                  struct buffer *out);
