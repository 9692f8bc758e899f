/* JSON-RPC 2.0 as MCP uses it: reading messages within bounds. Pure. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603,
    RPC_REFUSED = -32000, /* as the official SDKs have it: something about the transport */
    RPC_SESSION_NOT_FOUND = -32001,  /* likewise */
    RPC_RESOURCE_NOT_FOUND = -32002, /* until 2025-11-25; then RPC_INVALID_PARAMS */
    RPC_HEADER_MISMATCH = -32020,    /* since 2026-07-28, as the next two */
    RPC_MISSING_CAPABILITY = -32021,
    RPC_UNSUPPORTED_VERSION = -32022,
};

enum rpc_kind {
    RPC_REQUEST,
    RPC_NOTIFICATION,
    RPC_RESPONSE,
    RPC_INVALID
};

/* Borrows from the JSON it was read from. */
struct rpc_message {
    enum rpc_kind kind;
    json_t *id; /* a string or an integer; NULL: there is none that could be echoed */
    const char *method;
    json_t *params;    /* an object; NULL: absent */
    json_t *meta;      /* "_meta" of it, of any type; NULL: absent */
    const char *fault; /* RPC_INVALID: a sentence */
};

/* Any JSON value (new reference); NULL: it is no JSON, or more of it than we take, with a sentence in `fault`. */
enum {
    RPC_FAULT_SIZE = 160
};
json_t *rpc_parse(const char *text, size_t length, char fault[RPC_FAULT_SIZE]);
struct rpc_message rpc_read(json_t *json);

/* Bytes that are no UTF-8, as where a text was cut, become question marks. */
void rpc_mend(char *text);
