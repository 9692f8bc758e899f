#include "http/routes.h"

#include "base/attributes.h"
#include "husk/limits.h"

/* Bodies of routes that take a few fields, or ignore what is sent. */
#define SMALL   MAX_SMALL_BODY_BYTES, MAX_SMALL_BODY_BYTES
#define CODE    MAX_CODE_BYTES, MAX_JSON_BODY_BYTES
#define INPUT   MAX_INPUT_BODY_BYTES, MAX_INPUT_BODY_BYTES
#define COMMAND MAX_COMMAND_BODY_BYTES, MAX_COMMAND_BODY_BYTES

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
    {"POST", "/sandbox/{id}/command", route_command, COMMAND, false},
    {"GET", "/sandbox/{id}/commands", route_commands, SMALL, false},
    {"GET", "/sandbox/{id}/commands/{command}", route_command_result, SMALL, false},
    {"DELETE", "/sandbox/{id}/commands/{command}", route_command_kill, SMALL, false},
    {"POST", "/sandbox/{id}/install", route_install, SMALL, false},
    {"GET", "/sandbox/{id}/packages", route_packages, SMALL, false},
    {"GET", "/sandbox/{id}/packages/{name}", route_package, SMALL, false},
    {"GET", "/sandbox/{id}/download/{path*}", route_download, SMALL, false, true},
    {"GET", "/health", route_health, SMALL, true},
};
const size_t routes_count = ARRAY_LENGTH(routes);
