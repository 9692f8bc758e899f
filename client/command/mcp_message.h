/* JSON-RPC messages as `husk mcp` sees them: enough of them to carry them to huskd and back, and no more. Pure.
 *
 * Two eras. What claims a version in params._meta is modern (2026-07-28): each message stands for itself, and HTTP wants part of
 * it again in headers. Everything else is legacy: there is a handshake, and then a session. */
#pragma once

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/attributes.h"
#include "base/buffer.h"

enum message_kind {
    MESSAGE_REQUEST,
    MESSAGE_NOTIFICATION,
    MESSAGE_RESPONSE, /* to a question of the server, which huskd does not ask */
    MESSAGE_BATCH,    /* of 2025-03-26 */
    MESSAGE_INVALID
};

enum message_error {
    ERROR_PARSE = -32700,
    ERROR_INVALID_REQUEST = -32600,
    ERROR_INTERNAL = -32603,
    ERROR_SESSION_NOT_FOUND = -32001
};

struct message {
    enum message_kind kind;
    bool modern;
    char *text; /* as it came, owned */
    size_t length;
    json_t *json;       /* owned; NULL: it is none */
    json_t *id;         /* borrowed from it, as the next ones; NULL: none */
    const char *method; /* NULL: none */
    json_t *params;     /* NULL: none, or not an object */
    const char *fault;  /* MESSAGE_INVALID: a sentence */
    enum message_error code;
};

/* Copies the text. Memory is out: MESSAGE_INVALID. */
void message_read(struct message *message, const char *text, size_t length);
void message_free(struct message *message);
bool message_is(const struct message *message, const char *method);

/* Any JSON within our bounds (new reference); NULL: it is none. */
json_t *message_parse(const char *text, size_t length);

/* A header of a modern message, as "Name: value", owned; NULL: it has none, or memory is out. */
enum message_header {
    HEADER_VERSION,
    HEADER_METHOD,
    HEADER_NAME,
    HEADER_COUNT
};
char *message_header(const struct message *message, enum message_header which);

/* What is said to a model, cut at a whole character. */
enum {
    MESSAGE_SENTENCE = 600 /* bytes, with a NUL */
};
void message_sentence(char text[MESSAGE_SENTENCE], const char *format, va_list arguments)
    _printf_(2, 0);

/* An answer as one line, owned; NULL: memory is out. `id` may be NULL. */
char *message_error(const json_t *id, int code, const char *text);
/* `result` is stolen. */
char *message_result(json_t *id, json_t *result);
/* The result of a tool: a text, and the same for programs (stolen; NULL: none). Modern ones say that they are complete. */
json_t *message_tool_result(bool modern, bool is_error, const char *text, json_t *structured);
char *message_progress(json_t *token, double done, double total, const char *text);
