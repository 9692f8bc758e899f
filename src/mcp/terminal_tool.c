/* Running shell commands beside the kernel. The sandbox's shim makes the result. */
#include <stdlib.h>

#include "base/attributes.h"
#include "base/id.h"
#include "husk/limits.h"
#include "huskd/command_fields.h"
#include "huskd/config.h"
#include "huskd/json_body.h"
#include "huskd/problem.h"
#include "huskd/service.h"
#include "mcp/mcp.h"
#include "mcp/tools.h"

/* Either way command_fields_free(). */
static bool read_arguments(const struct mcp_call *call, json_t *arguments,
                           struct command_fields *ret, struct problem *problem)
{
    const struct config *config = call->mcp->service->config;
    struct number_range range = {LEAST_TIMEOUT, (double)config->timeout_seconds.maximum};
    return command_fields_read(arguments, config, ret, problem) &&
           json_body_real(arguments, "timeout_seconds", range, &ret->timeout, problem);
}

static void run(struct mcp_call *call, struct command_fields *fields)
{
    char id[ID_TEXT_SIZE];
    id_format(id_new(), id);
    fields->tool = tool_order(call);
    _cleanup_free_ char *message = fields->tool ? command_fields_message(fields, id) : NULL;
    if (message)
        tool_run_in_shim(call, SHIM_COMMAND, message, fields->timeout);
    else
        tool_fail(call, "huskd is out of memory. Try again later.");
}

static void start(struct mcp_call *call)
{
    struct problem problem;
    struct command_fields fields;
    if (read_arguments(call, json_object_get(call->params, "arguments"), &fields, &problem))
        run(call, &fields);
    else
        tool_fail_problem(call, &problem); /* cannot be: they were good before */
    command_fields_free(&fields);
}

static void command(struct mcp_call *call, json_t *arguments)
{
    struct problem problem;
    struct command_fields fields;
    bool good = read_arguments(call, arguments, &fields, &problem);
    command_fields_free(&fields);
    if (good)
        tool_with_sandbox(call, arguments, start);
    else
        tool_fail_problem(call, &problem);
}

/* clang-format off */
const struct mcp_tool tool_command = {
    .name = "execute_terminal_command",
    .run = command,
    .definition = JSON({
        "title": "Run shell commands",
        "description": "Run a shell command (bash) in a sandbox, or several one after the other until one fails. It runs beside Python and sees the same files; it does not wait for code that runs, and each command begins in a new shell, in /home/user unless cwd says otherwise. There is no network. Output is returned when it has ended; after timeout_seconds (60 unless you say otherwise) it is killed. Files that it creates or changes are listed as links. An exit code other than 0 is reported as an error. Without sandbox_id a sandbox is made and named in the answer.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "command": {
                    "type": ["string", "array"],
                    "items": {"type": "string"},
                    "description": "A text for the shell, or a program and its arguments as a list, which no shell reads."
                },
                "commands": {
                    "type": "array",
                    "items": {"type": ["string", "array"], "items": {"type": "string"}},
                    "minItems": 1,
                    "maxItems": 64,
                    "description": "Several of them instead of command: they run one after the other until one fails."
                },
                "sandbox_id": {"type": "string", "description": "Id or name of the sandbox. May be left out if you have exactly one, or none yet."},
                "cwd": {"type": "string", "description": "Where it runs: absolute, or below /home/user."},
                "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "More environment variables."},
                "stdin": {"type": "string", "description": "What the first command reads from stdin."},
                "timeout_seconds": {"type": "number", "exclusiveMinimum": 0, "description": "Kill it after so many seconds, all commands together."}
            },
            "additionalProperties": false
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "sandbox_id": {"type": "string"},
                "command_id": {"type": "string"},
                "pid": {"type": ["integer", "null"]},
                "status": {"enum": ["ok", "error", "timeout", "interrupted", "died"]},
                "stdout": {"type": "string"},
                "stderr": {"type": "string"},
                "exit_code": {"type": ["integer", "null"], "description": "As the shell has it; of the last command that ran."},
                "signal": {"type": ["string", "null"]},
                "error": {"type": ["string", "null"]},
                "error_value": {"type": ["string", "null"]},
                "commands": {"type": "array", "items": {"type": "object"}, "description": "How each of several ended."},
                "files": {"type": "array", "items": {"type": "object"}, "description": "Files that were created or changed."},
                "duration_ms": {"type": "integer"},
                "truncated": {"type": "boolean"}
            },
            "required": ["sandbox_id", "status", "stdout", "stderr", "exit_code"]
        },
        "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false}
    }),
};
/* clang-format on */
