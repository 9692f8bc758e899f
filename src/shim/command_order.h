/* What SHIM_COMMAND asks for (husk/shim_protocol.h), checked. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/connection.h"
#include "shim/event_stream.h"
#include "shim/order.h"

struct command_order {
    struct ticket ticket;
    const char *id; /* this and the JSON is borrowed from the message */
    const json_t
        *steps; /* an array of strings (for the shell) and arrays of strings (to be executed) … */
    const json_t *single; /* … or one of them */
    uint64_t timeout_ms;
    const char *directory; /* NULL: the home directory */
    const json_t *env;     /* an object of strings; NULL: none */
    json_t *input;         /* a string; NULL: none */
    bool streams;          /* as events, in this format: */
    enum stream_format format;
    bool detach;
    struct tool_order tool;
};

/* 0 or -EINVAL. */
int command_order_read(struct ticket ticket, const json_t *body, struct command_order *ret);
/* How many, and which. */
size_t command_order_steps(const struct command_order *order);
const json_t *command_order_step(const struct command_order *order, size_t index);
