/* What a client asks for with `command` (API.md "Running code"): always a JSON object. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "http/stream.h"

struct problem;
struct request;

struct command_fields {
    json_t *body;    /* parsed; owned */
    json_t *command; /* borrowed from it, as the rest is: a text or a list of arguments … */
    json_t *list;    /* … or several of these */
    double timeout;  /* seconds */
    json_t *cwd;     /* NULL: the home directory, as for those below: none */
    json_t *env;
    json_t *input;
    bool detach;
    enum stream_kind stream;
};

/* False with *problem filled in. Either way command_fields_free(). */
bool command_fields_read(const struct request *request, struct command_fields *ret,
                         struct problem *problem);
void command_fields_free(struct command_fields *fields);
/* For the shim: SHIM_COMMAND. free(); NULL when memory is out. */
char *command_fields_message(const struct command_fields *fields, const char *command_id);
