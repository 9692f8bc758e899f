/* Running code: the tool that everything is about. The sandbox's shim makes the result, in the form that a tool's has to
 * have: huskd does not read what a kernel said. */
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "husk/limits.h"
#include "husk/shim_protocol.h"
#include "huskd/config.h"
#include "huskd/json_body.h"
#include "huskd/problem.h"
#include "huskd/service.h"
#include "huskd/stdin_lines.h"
#include "mcp/mcp.h"
#include "mcp/tools.h"

/* --- arguments ---------------------------------------------------------------------------------- */

struct execute_arguments {
    const char *code;
    size_t code_length;
    double timeout;
    json_t *input; /* lines, owned; NULL: none */
};

/* The lines that input() reads: of a text, or as they are given. */
static bool read_input(const json_t *arguments, struct execute_arguments *ret,
                       struct problem *problem)
{
    json_t *given = json_body_value(arguments, "stdin");
    if (!given)
        return true;
    ret->input = stdin_lines(given);
    if (!ret->input)
        problem_set(
            problem, PROBLEM_INVALID_FIELD,
            "stdin must be a string or a list of strings, of at most %d bytes and %d lines.",
            MAX_STDIN_BYTES, MAX_STDIN_LINES);
    return ret->input != NULL;
}

static bool read_arguments(const struct mcp_call *call, const json_t *arguments,
                           struct execute_arguments *ret, struct problem *problem)
{
    const struct config *config = call->mcp->service->config;
    struct number_range range = {LEAST_TIMEOUT, (double)config->timeout_seconds.maximum};
    *ret = (struct execute_arguments){.timeout = (double)config->timeout_seconds.standard};
    if (!json_body_text(arguments, "code", &ret->code, &ret->code_length, problem) ||
        !json_body_real(arguments, "timeout_seconds", range, &ret->timeout, problem))
        return false;
    if (!ret->code) {
        problem_set(problem, PROBLEM_INVALID_FIELD, "code is missing: the Python code to run.");
        return false;
    }
    if (ret->code_length > MAX_CODE_BYTES) {
        problem_set(problem, PROBLEM_BODY_TOO_LARGE,
                    "The code has %zu bytes; at most %d are taken. Put data into files.",
                    ret->code_length, MAX_CODE_BYTES);
        return false;
    }
    return read_input(arguments, ret, problem);
}

/* SHIM_EXECUTE; free(). NULL when memory is out. */
static char *message_for(const struct mcp_call *call, const struct execute_arguments *arguments)
{
    json_auto_t *tool = tool_order(call);
    json_auto_t *message = json_pack(
        "{s:s%, s:I, s:O, s:O*}", "code", arguments->code, arguments->code_length, "timeout_ms",
        (json_int_t)(arguments->timeout * 1000), "mcp", tool, "stdin", arguments->input);
    return message ? json_dumps(message, JSON_COMPACT) : NULL;
}

/* --- running ------------------------------------------------------------------------------------ */

static void run(struct mcp_call *call, const struct execute_arguments *arguments)
{
    _cleanup_free_ char *message = message_for(call, arguments);
    if (!message)
        return tool_fail(call, "huskd is out of memory. Try again later.");
    tool_run_in_shim(call, SHIM_EXECUTE, message, arguments->timeout);
}

static void start(struct mcp_call *call)
{
    struct problem problem;
    struct execute_arguments arguments;
    if (read_arguments(call, json_object_get(call->params, "arguments"), &arguments, &problem))
        run(call, &arguments);
    else
        tool_fail_problem(call, &problem); /* cannot be: they were good before */
    json_decref(arguments.input);
}

static void execute(struct mcp_call *call, json_t *arguments)
{
    struct problem problem;
    struct execute_arguments read;
    bool good = read_arguments(call, arguments, &read, &problem);
    json_decref(read.input);
    if (good)
        tool_with_sandbox(call, arguments, start);
    else
        tool_fail_problem(call, &problem);
}

/* clang-format off */
const struct mcp_tool tool_execute = {
    .name = "execute_python_code",
    .run = execute,
    .definition = JSON({
        "title": "Run Python code",
        "description": "Run Python code in a sandbox, as a cell of a notebook: variables, imports and files from earlier calls are there, the value of the last expression is shown, plots come back as images (matplotlib needs no show or savefig), `!command` runs a shell command. Prints are returned when the code has ended. numpy, pandas, scipy and matplotlib are installed, install_packages gets others; there is no network. The working directory is /home/user; files that the code makes are listed as links that can be read as resources. Without sandbox_id a sandbox is made and named in the answer: pass its id from then on. One execution runs at a time; if it takes longer than timeout_seconds (60 unless you say otherwise) it is interrupted, and variables are kept.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "code": {"type": "string", "description": "Python code, of any number of lines."},
                "sandbox_id": {"type": "string", "description": "Id or name of the sandbox. May be left out if you have exactly one, or none yet."},
                "timeout_seconds": {"type": "number", "exclusiveMinimum": 0, "description": "Interrupt the code after so many seconds."},
                "stdin": {
                    "type": ["string", "array"],
                    "items": {"type": "string"},
                    "description": "What input() reads: a text, or a list of lines."
                }
            },
            "required": ["code"],
            "additionalProperties": false
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "sandbox_id": {"type": "string"},
                "status": {"enum": ["ok", "error", "timeout", "interrupted", "died"]},
                "stdout": {"type": "string"},
                "stderr": {"type": "string"},
                "error": {"type": ["string", "null"], "description": "Type of the exception."},
                "error_value": {"type": ["string", "null"]},
                "traceback": {"type": ["string", "null"]},
                "results": {"type": "array", "items": {"type": "object"}, "description": "What was shown, for each MIME type; the data of images is in content only."},
                "files": {"type": "array", "items": {"type": "object"}, "description": "Files that were created or changed."},
                "state_lost": {"type": "boolean", "description": "The kernel was replaced: variables are gone."},
                "execution_count": {"type": ["integer", "null"]},
                "duration_ms": {"type": "integer"},
                "truncated": {"type": "boolean"}
            },
            "required": ["sandbox_id", "status", "stdout", "stderr"]
        },
        "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false}
    }),
};
/* clang-format on */
