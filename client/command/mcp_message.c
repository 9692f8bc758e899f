#include "command/mcp_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "command/base64.h"
#include "husk/limits.h"

#define KEY_VERSION "io.modelcontextprotocol/protocolVersion"

/* --- reading ------------------------------------------------------------------------------------ */

/* jansson goes deep, recursively: bounded before it is asked. Values cost some forty bytes each. */
static bool excessive(const char *text, size_t length)
{
    size_t depth = 0, values = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '['))
            depth++;
        else if (!quoted && (c == '}' || c == ']') && depth > 0)
            depth--;
        values += !quoted && (c == ',' || c == '{' || c == '[');
        if (depth > MAX_JSON_DEPTH || values > MAX_JSON_VALUES)
            return true;
    }
    return false;
}

json_t *message_parse(const char *text, size_t length)
{
    json_error_t ignored;
    return excessive(text, length) ? NULL : json_loadb(text, length, JSON_ALLOW_NUL, &ignored);
}

static void reject(struct message *message, enum message_error code, const char *fault)
{
    message->kind = MESSAGE_INVALID;
    message->code = code;
    message->fault = fault;
}

static json_t *usable_id(json_t *id)
{
    bool text = json_is_string(id) && json_string_length(id) <= MAX_MCP_ID_BYTES;
    return text || json_is_integer(id) ? id : NULL;
}

static void read_object(struct message *message)
{
    json_t *given = json_object_get(message->json, "id");
    json_t *params = json_object_get(message->json, "params");
    message->id = usable_id(given);
    message->method = json_string_value(json_object_get(message->json, "method"));
    message->params = json_is_object(params) ? params : NULL;
    message->modern =
        json_object_get(json_object_get(message->params, "_meta"), KEY_VERSION) != NULL;
    if (message->method && given && !message->id)
        reject(message, ERROR_INVALID_REQUEST, "id must be an integer or a short string.");
    else if (message->method)
        message->kind = given ? MESSAGE_REQUEST : MESSAGE_NOTIFICATION;
    else if (json_object_get(message->json, "result") || json_object_get(message->json, "error"))
        message->kind = MESSAGE_RESPONSE;
    else
        reject(message, ERROR_INVALID_REQUEST,
               "This is no JSON-RPC message: it has no method that is a string.");
}

void message_read(struct message *message, const char *text, size_t length)
{
    *message = (struct message){.length = length};
    message->json = message_parse(text, length);
    message->text = malloc(length + 1);
    if (!message->text)
        return reject(message, ERROR_INTERNAL, "husk mcp is out of memory.");
    memcpy(message->text, text, length);
    message->text[length] = '\0';
    if (json_is_object(message->json))
        read_object(message);
    else if (json_is_array(message->json))
        message->kind = MESSAGE_BATCH;
    else
        reject(message, ERROR_PARSE,
               "A line must be one JSON-RPC message, as JSON in UTF-8 that is not nested deeply.");
}

void message_free(struct message *message)
{
    free(message->text);
    json_decref(message->json);
    *message = (struct message){0};
}

bool message_is(const struct message *message, const char *method)
{
    return message->method && strcmp(message->method, method) == 0;
}

/* --- headers ------------------------------------------------------------------------------------ */

/* A header can hold it as it is, and nobody takes it for something encoded. */
static bool is_plain(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bool edge = i == 0 || i + 1 == length;
        if (text[i] < 0x20 || text[i] > 0x7e || (edge && text[i] == ' '))
            return false;
    }
    return length > 0 && strncmp(text, "=?", 2) != 0;
}

static char *header(const char *name, const json_t *value)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    if (!text || length > MAX_HEADER_BYTES / 2)
        return NULL;
    if (is_plain(text, length))
        return must_format("%s: %s", name, text);
    _cleanup_free_ char *encoded = base64_encode(text, length, NULL);
    return encoded ? must_format("%s: =?base64?%s?=", name, encoded) : NULL;
}

/* Which of its params Mcp-Name repeats. */
static const struct {
    const char *method, *member;
} named[] = {
    {"tools/call", "name"},  {"prompts/get", "name"},    {"resources/read", "uri"},
    {"tasks/get", "taskId"}, {"tasks/update", "taskId"}, {"tasks/cancel", "taskId"},
};

char *message_header(const struct message *message, enum message_header which)
{
    const json_t *meta = json_object_get(message->params, "_meta");
    if (which == HEADER_VERSION)
        return header("MCP-Protocol-Version", json_object_get(meta, KEY_VERSION));
    if (which == HEADER_METHOD)
        return header("Mcp-Method", json_object_get(message->json, "method"));
    for (size_t i = 0; i < ARRAY_LENGTH(named); i++) {
        if (message_is(message, named[i].method))
            return header("Mcp-Name", json_object_get(message->params, named[i].member));
    }
    return NULL;
}

void message_sentence(char text[MESSAGE_SENTENCE], const char *format, va_list arguments)
{
    (void)vsnprintf(text, MESSAGE_SENTENCE, format, arguments);
    text[utf8_prefix(text, strlen(text))] = '\0';
}

/* --- writing ------------------------------------------------------------------------------------ */

static char *as_line(json_t *message)
{
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    json_decref(message);
    return text;
}

char *message_error(const json_t *id, int code, const char *text)
{
    return as_line(json_pack("{s:s, s:O*, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id, "error",
                             "code", code, "message", text));
}

char *message_result(json_t *id, json_t *result)
{
    return as_line(json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result));
}

json_t *message_tool_result(bool modern, bool is_error, const char *text, json_t *structured)
{
    json_t *result = json_pack("{s:[{s:s, s:s}], s:o*, s:b}", "content", "type", "text", "text",
                               text, "structuredContent", structured, "isError", is_error);
    if (result && modern)
        (void)json_object_set_new(result, "resultType", json_string("complete"));
    return result;
}

char *message_progress(json_t *token, double done, double total, const char *text)
{
    return as_line(json_pack("{s:s, s:s, s:{s:O, s:f, s:f, s:s}}", "jsonrpc", "2.0", "method",
                             "notifications/progress", "params", "progressToken", token, "progress",
                             done, "total", total, "message", text));
}
