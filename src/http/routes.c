#include "http/routes.h"

#include "base/attributes.h"
#include "http/upload.h"
#include "husk/limits.h"

/* Bodies of routes that take a few fields, or ignore what is sent. */
#define SMALL     MAX_SMALL_BODY_BYTES, MAX_SMALL_BODY_BYTES
#define CODE      MAX_CODE_BYTES, MAX_JSON_BODY_BYTES
#define FORM      MAX_FORM_BYTES, MAX_FORM_BYTES
#define FILE_BODY MAX_UPLOAD_BYTES, MAX_UPLOAD_BYTES
#define INPUT     MAX_INPUT_BODY_BYTES, MAX_INPUT_BODY_BYTES
#define COMMAND   MAX_COMMAND_BODY_BYTES, MAX_COMMAND_BODY_BYTES

const struct route routes[] = {
    {"POST", "/sandbox/create", route_create, SMALL},
    {"GET", "/sandboxes", route_list, SMALL},
    {"GET", "/sandbox/{id}", route_describe, SMALL},
    {"DELETE", "/sandbox/{id}", route_close, SMALL},
    {"POST", "/sandbox/{id}/close", route_close, SMALL},
    {"POST", "/sandbox/{id}/extend", route_extend, SMALL},
    {"POST", "/sandbox/{id}/execute", route_execute, CODE},
    {"GET", "/sandbox/{id}/executions/{execution}", route_execution, SMALL},
    {"POST", "/sandbox/{id}/input", route_input, INPUT},
    {"POST", "/sandbox/{id}/interrupt", route_interrupt, SMALL},
    {"POST", "/sandbox/{id}/restart", route_restart, SMALL},
    {"POST", "/sandbox/{id}/complete", route_complete, CODE},
    {"POST", "/sandbox/{id}/inspect", route_inspect, CODE},
    {"POST", "/sandbox/{id}/is_complete", route_is_complete, CODE},
    {"POST", "/sandbox/{id}/command", route_command, COMMAND},
    {"GET", "/sandbox/{id}/commands", route_commands, SMALL},
    {"GET", "/sandbox/{id}/commands/{command}", route_command_result, SMALL},
    {"DELETE", "/sandbox/{id}/commands/{command}", route_command_kill, SMALL},
    {"POST", "/sandbox/{id}/install", route_install, SMALL},
    {"GET", "/sandbox/{id}/packages", route_packages, SMALL},
    {"GET", "/sandbox/{id}/packages/{name}", route_package, SMALL},
    {"POST", "/sandbox/{id}/upload", route_upload, FORM, .taker = &upload_form},
    {"GET", "/sandbox/{id}/files", route_list_files, SMALL},
    {"PUT", "/sandbox/{id}/files/{path*}", route_put_file, FILE_BODY, .taker = &upload_put},
    {"DELETE", "/sandbox/{id}/files/{path*}", route_remove_file, SMALL},
    {"GET", "/sandbox/{id}/download/{path*}", route_download, SMALL, .linked = true},
    {"GET", "/sandbox/{id}/download", route_download, SMALL},
    {"GET", "/sandbox/{id}/download/", route_download, SMALL}, /* what clients make of "/." */
    {"GET", "/sandbox/file", route_file, SMALL, .linked = true, .by_query = true},
    {"POST", "/mcp", route_mcp, CODE},
    {"GET", "/mcp", route_mcp_stream, SMALL},
    {"DELETE", "/mcp", route_mcp_end, SMALL},
    {"POST", "/mcp/tools/{tool}", route_mcp_tool, CODE},
    {"GET", "/sse", route_sse, SMALL},
    {"POST", "/messages", route_messages, CODE},
    {"GET", "/health", route_health, SMALL, .open = true},
};
const size_t routes_count = ARRAY_LENGTH(routes);
