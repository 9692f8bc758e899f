/* What SHIM_EXECUTE asks for (husk/shim_protocol.h), checked. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "shim/connection.h"
#include "shim/event_stream.h"
#include "shim/input.h"
#include "shim/question.h"

/* The answer is the result of an MCP tool (tool_answer.h). */
struct tool_order {
    const char *sandbox; /* its id, for the addresses of files; NULL: no tool */
    const char *note;    /* to stand behind the output; NULL: none */
    bool links;          /* the client knows links to resources */
    bool progress;       /* tell how it goes on */
    bool small;          /* the client does not take large answers */
};

struct order {
    struct ticket ticket;
    json_t *code; /* a string; this and the other JSON is borrowed from the message */
    uint64_t timeout_ms;
    json_t *env; /* an object of strings; NULL: none */
    bool colours;
    bool auto_install;
    enum input_mode input;
    json_t *lines; /* INPUT_GIVEN: an array of strings */
    bool streams;  /* as events, in this format: */
    enum stream_format format;
    const char *execution_id; /* detached; NULL: the caller waits */
    struct tool_order tool;
    const struct question *question; /* to be asked in place of running code; NULL: none */
};

/* "mcp" of `body`, if there is one: 0 or -EINVAL. Borrowed from it. */
int tool_order_read(const json_t *body, struct tool_order *ret);

/* SHIM_ASK: 0 or -EINVAL. `question` is filled in, and borrowed by the order. */
int order_read_question(struct ticket ticket, const json_t *body, struct question *question,
                        struct order *ret);

/* 0 or -EINVAL. */
int order_read(struct ticket ticket, const json_t *body, struct order *ret);
