/* Tools that make, list, extend and end sandboxes, and that stop what runs in one. */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "husk/limits.h"
#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/create_fields.h"
#include "huskd/json_body.h"
#include "huskd/packages.h"
#include "huskd/problem.h"
#include "huskd/registry.h"
#include "huskd/sandbox.h"
#include "huskd/sandbox_json.h"
#include "huskd/service.h"
#include "mcp/mcp.h"
#include "mcp/session.h"
#include "mcp/tools.h"
#include "mcp/view.h"

enum {
    PATIENCE_MS = SHIM_PATIENCE_SECONDS * 1000,
    RESTART_PATIENCE_MS = 3 * START_SECONDS * 1000 + PATIENCE_MS /* three attempts */
};

/* For models, who have no use for what is not known. */
static json_t *describe(const struct mcp_call *call, const struct sandbox *sandbox)
{
    json_t *json = sandbox_json(sandbox, NULL, call->caller);
    (void)json_object_del(json, "usage");
    return json;
}

/* --- create ------------------------------------------------------------------------------------- */

static void tell_created(struct mcp_call *call, json_t *installed)
{
    const struct sandbox *sandbox = call->sandbox;
    char expires[TIMESTAMP_SIZE];
    format_timestamp(sandbox->record.expires_at, expires);
    if (call->session)
        session_remember(call->session, call->mcp->service, sandbox->id);
    json_t *json = describe(call, sandbox);
    if (installed)
        (void)json_object_set(json, "installed", installed);
    tool_answer(
        call, json,
        "Created sandbox %s%s%s. It ends at %s with everything in it. Pass sandbox_id to the "
        "other tools; the working directory is /home/user.",
        sandbox->text, *sandbox->record.name ? ", named " : "", sandbox->record.name, expires);
}

/* A sandbox without the packages that its caller wants is of no use to him. */
static void furnished(struct mcp_call *call, const struct install_result *result)
{
    struct sandbox *sandbox = call->sandbox;
    if (result->problem)
        return tool_fail_problem(call, result->problem); /* it is ending already */
    if (result->success)
        return tell_created(call, result->installed);
    _cleanup_free_ char *text =
        must_format("The sandbox was not made, because its packages cannot be installed. Correct "
                    "packages and try again.\n\n%s",
                    result->error);
    rpc_mend(text);
    tool_result(call, NULL, true, text);
    sandbox_abandon(sandbox);
}

static void cancel_furnish(struct mcp_call *call)
{
    tool_stop_install(call);
    sandbox_abandon(call->sandbox);
}

static void created(struct sandbox *sandbox, const struct problem *problem, void *user)
{
    struct mcp_call *call = user;
    struct problem fault;
    json_auto_t *packages = NULL;
    if (problem)
        return tool_fail_problem(call, problem);
    call->sandbox = sandbox;
    memcpy(call->sandbox_text, sandbox->text, sizeof call->sandbox_text);
    (void)create_fields_packages(json_object_get(call->params, "arguments"), &packages, &fault);
    struct install_order order = {.requirements = packages};
    if (!packages)
        return tell_created(call, NULL);
    if (tool_install(call, &order, cancel_furnish, furnished, &fault))
        return;
    tool_fail_problem(call, &fault);
    sandbox_abandon(sandbox);
}

static void cancel_create(struct mcp_call *call)
{
    sandbox_abandon(call->sandbox);
}

static void create(struct mcp_call *call, json_t *arguments)
{
    struct problem problem;
    struct record record;
    json_auto_t *packages = NULL;
    json_t *env;
    if (!create_fields_read(arguments, call->mcp->service->config, call->caller, &record,
                            &problem) ||
        !create_fields_packages(arguments, &packages, &problem) ||
        !create_fields_env(arguments, &env, &problem))
        return tool_fail_problem(call, &problem);
    struct sandbox_waiter made = {.callback = created, .user = call};
    call->sandbox = sandbox_create(call->mcp->service, &record, env, made, &problem);
    if (!call->sandbox)
        tool_fail_problem(call, &problem);
    else if (sandbox_live(call->sandbox))
        created(call->sandbox, NULL, call);
    else
        call_wait(call, cancel_create);
}

/* --- list --------------------------------------------------------------------------------------- */

static void list(struct mcp_call *call, json_t *arguments _unused_)
{
    const struct registry *registry = call->mcp->service->registry;
    json_t *sandboxes = json_array();
    _cleanup_buffer_ struct buffer text = {0};
    size_t count = 0;
    for (const struct sandbox *s = registry_first(registry); s; s = registry_next(s)) {
        if (!view_has(call, s) || ++count > MAX_MCP_LISTED)
            continue;
        char expires[TIMESTAMP_SIZE];
        format_timestamp(s->record.expires_at, expires);
        (void)json_array_append_new(sandboxes, describe(call, s));
        (void)buffer_printf(&text, "%s%s%s: %s, ends at %s\n", s->text, *s->record.name ? " " : "",
                            s->record.name, sandbox_state_name(s), expires);
    }
    if (count > MAX_MCP_LISTED)
        (void)buffer_printf(&text, "… and %zu more\n", count - MAX_MCP_LISTED);
    json_t *structured =
        json_pack("{s:o, s:I}", "sandboxes", sandboxes, "count", (json_int_t)count);
    tool_answer(call, structured, "%s",
                count ? buffer_text(&text)
                      : "There are no sandboxes. create_sandbox makes one, and so does "
                        "execute_python_code without a sandbox_id.");
}

/* --- extend and close --------------------------------------------------------------------------- */

static void extend(struct mcp_call *call, json_t *arguments)
{
    struct problem problem;
    uint64_t seconds = 0;
    struct number_range range = {MIN_TTL_SECONDS,
                                 (double)call->mcp->service->config->ttl_seconds.maximum};
    if (!json_body_whole(arguments, "ttl_seconds", range, &seconds, &problem))
        return tool_fail_problem(call, &problem);
    if (seconds == 0)
        return tool_fail(call, "ttl_seconds is missing: how long the sandbox shall live from now.");
    if (!tool_find_sandbox(call, arguments, NULL))
        return;
    char expires[TIMESTAMP_SIZE];
    sandbox_extend(call->sandbox, seconds);
    format_timestamp(call->sandbox->record.expires_at, expires);
    tool_answer(call, describe(call, call->sandbox), "Sandbox %s now ends at %s.",
                call->sandbox_text, expires);
}

static json_t *outcome(const struct mcp_call *call)
{
    return json_pack("{s:s, s:s}", "sandbox_id", call->sandbox_text, "status", "success");
}

static void closed(struct sandbox *sandbox _unused_, const struct problem *problem, void *user)
{
    struct mcp_call *call = user;
    if (problem)
        return tool_fail_problem(call, problem);
    tool_answer(call, outcome(call), "Sandbox %s is closed; nothing of it is left.",
                call->sandbox_text);
}

static void cancel_close(struct mcp_call *call)
{
    sandbox_forget_close(call->sandbox);
}

/* Waits before it asks, since the answer may come at once. */
static void close_sandbox(struct mcp_call *call, json_t *arguments)
{
    struct problem problem;
    if (!tool_find_sandbox(call, arguments, NULL))
        return;
    problem_set(&problem, PROBLEM_SANDBOX_CLOSED, "The sandbox was closed.");
    call_wait(call, cancel_close);
    sandbox_close(call->sandbox, ENDED_CLOSED, &problem,
                  (struct sandbox_waiter){.callback = closed, .user = call, .by = call->caller});
}

/* --- interrupt and restart ---------------------------------------------------------------------- */

static void cancel_call(struct mcp_call *call)
{
    sandbox_forget_call(call->sandbox, call->tag);
}

static void tell_shim(struct mcp_call *call, json_t *arguments, enum shim_type type,
                      const struct shim_request *request)
{
    if (!tool_find_sandbox(call, arguments, NULL))
        return;
    if (sandbox_call(call->sandbox, type, request, &call->tag) == 0)
        call_wait(call, cancel_call);
    else
        tool_fail(call, "Too much is waiting for this sandbox already. Try again in a moment.");
}

static void interrupted(const struct shim_answer *answer, void *user)
{
    struct mcp_call *call = user;
    if (answer->problem)
        return tool_fail_problem(call, answer->problem);
    tool_answer(call, outcome(call), "Nothing runs in sandbox %s any more.", call->sandbox_text);
}

static void interrupt(struct mcp_call *call, json_t *arguments)
{
    tell_shim(
        call, arguments, SHIM_INTERRUPT,
        &(struct shim_request){
            .payload = "", .callback = interrupted, .user = call, .patience_ms = PATIENCE_MS});
}

static void restarted(const struct shim_answer *answer, void *user)
{
    struct mcp_call *call = user;
    if (answer->problem)
        return tool_fail_problem(call, answer->problem);
    tool_answer(call, outcome(call),
                "Sandbox %s has a fresh kernel: variables and imports are gone, files are kept.",
                call->sandbox_text);
}

static void restart(struct mcp_call *call, json_t *arguments)
{
    tell_shim(call, arguments, SHIM_RESTART,
              &(struct shim_request){.payload = "",
                                     .callback = restarted,
                                     .user = call,
                                     .patience_ms = RESTART_PATIENCE_MS});
}

/* --- how models see them ------------------------------------------------------------------------ */

/* clang-format off */
#define SANDBOX_ID JSON("sandbox_id": {"type": "string", "description": "Id or name of the sandbox. May be left out if you have exactly one."})
#define SANDBOX JSON({"type": "object", "properties": {"sandbox_id": {"type": "string"}, "name": {"type": ["string", "null"]}, "owner": {"type": "string", "description": "Whose it is."}, "state": {"enum": ["ready", "busy", "restarting"]}, "created_at": {"type": "string"}, "expires_at": {"type": "string"}, "idle_seconds": {"type": "integer", "description": "It ends when it is not used for so long; 0: it does not."}, "limits": {"type": "object"}, "execution_count": {"type": "integer"}, "queued": {"type": "integer", "description": "Executions that wait."}, "commands": {"type": "integer", "description": "Commands that run."}, "image": {"type": "string"}, "kernel": {"type": ["object", "null"], "description": "Language and versions."}, "installed": {"type": "array", "items": {"type": "object"}}}, "required": ["sandbox_id", "expires_at"]})
#define OUTCOME JSON({"type": "object", "properties": {"sandbox_id": {"type": "string"}, "status": {"const": "success"}}, "required": ["sandbox_id", "status"]})

const struct mcp_tool tool_create_sandbox = {
    .name = "create_sandbox",
    .run = create,
    .definition = JSON({
        "title": "Create a sandbox",
        "description": "Create an isolated Python sandbox: an IPython kernel with numpy, pandas, scipy and matplotlib in a container of its own, without network. Variables, imports and files stay until it ends, which is after ttl_seconds (one day unless you say otherwise). Returns the sandbox_id for the other tools. You need this only for limits, a name, packages or several sandboxes: execute_python_code makes one by itself.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "A name to use in place of the id: letters, digits, '-', '_' and '.'."},
                "ttl_seconds": {"type": "integer", "minimum": 1, "description": "It ends so many seconds from now."},
                "idle_seconds": {"type": "integer", "minimum": 0, "description": "It ends earlier if nobody uses it for so long. 0: it does not."},
                "memory_mb": {"type": "integer", "minimum": 64, "description": "Most memory, in MiB. Left out: what the operator has set, as for the next three."},
                "cpus": {"type": "number", "minimum": 0.05, "description": "Most processor time; 1 is one core all the time."},
                "pids": {"type": "integer", "minimum": 16, "description": "Most processes and threads."},
                "disk_mb": {"type": "integer", "minimum": 16, "description": "Room for files and packages, in MiB."},
                "packages": {"type": "array", "items": {"type": "string"}, "description": "Python packages to install, such as \"polars\" or \"polars>=1\"."},
                "env": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Environment variables."}
            },
            "additionalProperties": false
        },
        "outputSchema":) SANDBOX JSON(,
        "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false}
    }),
};

const struct mcp_tool tool_list_sandboxes = {
    .name = "list_sandboxes",
    .run = list,
    .definition = JSON({
        "title": "List sandboxes",
        "description": "List the sandboxes that exist, with their ids, names, states and when they end.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": false},
        "outputSchema": {
            "type": "object",
            "properties": {"sandboxes": {"type": "array", "items":) SANDBOX JSON(}, "count": {"type": "integer"}},
            "required": ["sandboxes", "count"]
        },
        "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}
    }),
};

const struct mcp_tool tool_close_sandbox = {
    .name = "close_sandbox",
    .run = close_sandbox,
    .definition = JSON({
        "title": "Close a sandbox",
        "description": "End a sandbox and remove everything in it: variables, files, processes. Use it when the work is done.",
        "inputSchema": {"type": "object", "properties": {) SANDBOX_ID JSON(}, "additionalProperties": false},
        "outputSchema":) OUTCOME JSON(,
        "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": false}
    }),
};

const struct mcp_tool tool_extend_sandbox = {
    .name = "extend_sandbox",
    .run = extend,
    .definition = JSON({
        "title": "Extend a sandbox's life",
        "description": "Set when a sandbox ends: ttl_seconds from now. Sandboxes end by themselves, with everything in them; use this before that happens.",
        "inputSchema": {
            "type": "object",
            "properties": {) SANDBOX_ID JSON(, "ttl_seconds": {"type": "integer", "minimum": 1, "description": "It ends so many seconds from now."}},
            "required": ["ttl_seconds"],
            "additionalProperties": false
        },
        "outputSchema":) SANDBOX JSON(,
        "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}
    }),
};

const struct mcp_tool tool_interrupt = {
    .name = "interrupt_execution",
    .run = interrupt,
    .definition = JSON({
        "title": "Interrupt what runs",
        "description": "Stop the code that runs in a sandbox now, as Ctrl-C does. Variables are kept. Returns when nothing runs any more.",
        "inputSchema": {"type": "object", "properties": {) SANDBOX_ID JSON(}, "additionalProperties": false},
        "outputSchema":) OUTCOME JSON(,
        "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}
    }),
};

const struct mcp_tool tool_restart = {
    .name = "restart_kernel",
    .run = restart,
    .definition = JSON({
        "title": "Restart the kernel",
        "description": "Start Python afresh in a sandbox: variables and imports are gone, files are kept. Use it to get out of a confused state or to free memory.",
        "inputSchema": {"type": "object", "properties": {) SANDBOX_ID JSON(}, "additionalProperties": false},
        "outputSchema":) OUTCOME JSON(,
        "annotations": {"readOnlyHint": false, "destructiveHint": true, "idempotentHint": true, "openWorldHint": false}
    }),
};
/* clang-format on */
