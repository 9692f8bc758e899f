/* What a prompt asks with `complete`, `inspect` and `is_complete` (API.md "Running code"). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "husk/shim_protocol.h"

struct problem;

struct question_fields {
    enum question_kind kind;
    const char *code; /* borrowed from the body */
    size_t code_length;
    uint64_t cursor; /* in code points; the end of the code, unless given */
    uint64_t detail; /* 0 or 1 */
    bool colours;
};

/* `body`: an object that outlives *ret, whose kind (and colours, as a default) the caller has set. False with *problem filled
 * in. */
bool question_fields_read(const json_t *body, struct question_fields *ret, struct problem *problem);
/* For the shim: SHIM_ASK. free(); NULL when memory is out. */
char *question_fields_message(const struct question_fields *fields);
