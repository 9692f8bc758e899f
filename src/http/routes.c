#include "http/routes.h"

#include "base/attributes.h"
#include "husk/limits.h"

/* Bodies of routes that take a few fields, or ignore what is sent. */
#define SMALL MAX_SMALL_BODY_BYTES, MAX_SMALL_BODY_BYTES
#define CODE  MAX_CODE_BYTES, MAX_JSON_BODY_BYTES
#define INPUT MAX_INPUT_BODY_BYTES, MAX_INPUT_BODY_BYTES

const struct route routes[] = {
    {"POST", "/sandbox/create", route_create, SMALL, false},
    {"GET", "/sandboxes", route_list, SMALL, false},
    {"GET", "/sandbox/{id}", route_describe, SMALL, false},
    {"DELETE", "/sandbox/{id}", route_close, SMALL, false},
    {"POST", "/sandbox/{id}/close", route_close, SMALL, false},
    {"POST", "/sandbox/{id}/extend", route_extend, SMALL, false},
    {"POST", "/sandbox/{id}/execute", route_execute, CODE, false},
    {"GET", "/sandbox/{id}/executions/{execution}", route_execution, SMALL, false},
    {"POST", "/sandbox/{id}/input", route_input, INPUT, false},
    {"POST", "/sandbox/{id}/interrupt", route_interrupt, SMALL, false},
    {"POST", "/sandbox/{id}/restart", route_restart, SMALL, false},
    {"GET", "/sandbox/{id}/download/{path*}", route_download, SMALL, false, true},
    {"POST", "/mcp", route_mcp, CODE, false},
    {"GET", "/mcp", route_mcp_stream, SMALL, false},
    {"DELETE", "/mcp", route_mcp_end, SMALL, false},
    {"POST", "/mcp/tools/{tool}", route_mcp_tool, CODE, false},
    {"GET", "/sse", route_sse, SMALL, false},
    {"POST", "/messages", route_messages, CODE, false},
    {"GET", "/health", route_health, SMALL, true},
};
const size_t routes_count = ARRAY_LENGTH(routes);
