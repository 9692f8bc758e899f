/* What a client asks for with `execute` (API.md "Running code"): the body as code or as JSON, and the query. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "http/stream.h"

struct problem;
struct request;

struct execute_fields {
    json_t *body;     /* parsed, if it is JSON; owned */
    const char *code; /* borrowed from the body, as the rest is */
    size_t code_length;
    double timeout; /* seconds */
    json_t *env;    /* NULL: none */
    json_t *input;  /* lines, or the string "ask"; owned; NULL: none */
    bool colours;
    bool detach;
    bool auto_install;
    enum stream_kind stream;
};

/* False with *problem filled in. Either way execute_fields_free(). */
bool execute_fields_read(const struct request *request, struct execute_fields *ret,
                         struct problem *problem);
void execute_fields_free(struct execute_fields *fields);
/* For the shim: SHIM_EXECUTE. `execution_id` if detached, else NULL. free(); NULL when memory is out. */
char *execute_fields_message(const struct execute_fields *fields, const char *execution_id);

/* The "value" of `input`: a string (borrowed), or NULL for the end of input, which is null or absent with "eof": true. */
bool input_field_read(const json_t *body, json_t **ret, struct problem *problem);
