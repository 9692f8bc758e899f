#include "mcp/rpc.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "husk/limits.h"
#include "huskd/json_body.h"

json_t *rpc_parse(const char *text, size_t length, char fault[RPC_FAULT_SIZE])
{
    json_error_t error;
    const char *excess = json_body_excess(text, length);
    if (excess) {
        (void)snprintf(fault, RPC_FAULT_SIZE, "%s", excess);
        return NULL;
    }
    json_t *json =
        length ? json_loadb(text, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error) : NULL;
    if (!json && length == 0)
        (void)snprintf(fault, RPC_FAULT_SIZE, "The body is empty; it must be JSON.");
    else if (!json)
        (void)snprintf(fault, RPC_FAULT_SIZE, "The body is not valid JSON: line %d, column %d.",
                       error.line, error.column);
    return json;
}

/* An id that can be sent back: `null` and fractions are not allowed in MCP. */
static json_t *usable_id(json_t *id)
{
    bool text = json_is_string(id) && json_string_length(id) <= MAX_MCP_ID_BYTES;
    return text || json_is_integer(id) ? id : NULL;
}

static struct rpc_message invalid(json_t *id, const char *fault)
{
    return (struct rpc_message){.kind = RPC_INVALID, .id = id, .fault = fault};
}

struct rpc_message rpc_read(json_t *json)
{
    const char *version = json_string_value(json_object_get(json, "jsonrpc"));
    json_t *given = json_object_get(json, "id");
    json_t *id = usable_id(given);
    json_t *method = json_object_get(json, "method");
    json_t *params = json_object_get(json, "params");
    if (!json_is_object(json))
        return invalid(NULL, "A JSON-RPC message must be an object.");
    if (!version || strcmp(version, "2.0") != 0)
        return invalid(id, "jsonrpc must be \"2.0\".");
    if (!method && given && (json_object_get(json, "result") || json_object_get(json, "error")))
        return (struct rpc_message){.kind = RPC_RESPONSE, .id = id};
    if (!json_is_string(method) || json_string_length(method) > MAX_MCP_NAME_BYTES ||
        strlen(json_string_value(method)) != json_string_length(method))
        return invalid(id, "method must be a string, and not a long one.");
    if (given && !id)
        return invalid(NULL, "id must be an integer or a short string.");
    if (params && !json_is_object(params))
        return invalid(id, "params must be an object.");
    return (struct rpc_message){.kind = id ? RPC_REQUEST : RPC_NOTIFICATION,
                                .id = id,
                                .method = json_string_value(method),
                                .params = params,
                                .meta = json_object_get(params, "_meta")};
}

void rpc_mend(char *text)
{
    size_t length = strlen(text);
    for (size_t at = 0; at < length && !utf8_valid(text + at, length - at);) {
        size_t size = 1;
        while (size <= 4 && !utf8_valid(text + at, size))
            size++;
        if (size > 4)
            text[at++] = '?';
        else
            at += size;
    }
}
