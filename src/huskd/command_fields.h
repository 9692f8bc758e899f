/* What a client asks for with `command` (API.md "Running code"), or a model with execute_terminal_command. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct config;
struct problem;

struct command_fields {
    json_t *body;    /* an object; owned */
    json_t *command; /* borrowed from it, as the rest is: a text or a list of arguments … */
    json_t *list;    /* … or several of these */
    double timeout;  /* seconds */
    json_t *cwd;     /* NULL: the home directory, as for those below: none */
    json_t *env;
    json_t *input;
    bool detach;
    const char *stream; /* format of the events, static; NULL: one answer */
    json_t *tool;       /* "mcp" (husk/shim_protocol.h); owned; NULL: none */
};

/* `body`: an object; a reference is taken. All but `stream` and `tool`. False with *problem filled in. Either way
 * command_fields_free(). */
bool command_fields_read(json_t *body, const struct config *config, struct command_fields *ret,
                         struct problem *problem);
void command_fields_free(struct command_fields *fields);
/* For the shim: SHIM_COMMAND. free(); NULL when memory is out. */
char *command_fields_message(const struct command_fields *fields, const char *command_id);
