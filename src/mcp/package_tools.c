/* Tools that install packages and say what is installed. */
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "base/quoted.h"
#include "base/text.h"
#include "husk/limits.h"
#include "huskd/config.h"
#include "huskd/json_body.h"
#include "huskd/package_fields.h"
#include "huskd/package_json.h"
#include "huskd/packages.h"
#include "huskd/problem.h"
#include "huskd/requirement.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "mcp/mcp.h"
#include "mcp/tools.h"

enum {
    PATIENCE_MS = SHIM_PATIENCE_SECONDS * 1000
};

/* --- installing --------------------------------------------------------------------------------- */

/* call->own while it lasts. */
struct installing {
    struct install *install;
    tool_installed done;
    unsigned told; /* notifications: each has a larger number than the one before */
};

static void tell(struct mcp_call *call, const char *text)
{
    struct installing *installing = call->own;
    _cleanup_buffer_ struct buffer members = {0};
    size_t length = utf8_cut(text, strlen(text), MAX_TOOL_LINE_BYTES);
    if (buffer_printf(&members, "\"progress\":%u,\"message\":", ++installing->told) == 0 &&
        quoted_append(&members, text, length) == 0)
        call_progress(call, members.data, members.length);
}

static void progressed(const char *line, void *user)
{
    tell(user, line);
}

static void silent(void *user)
{
    tell(user, "still installing");
}

static void finished(const struct install_result *result, void *user)
{
    struct mcp_call *call = user;
    struct installing *installing = TAKE_POINTER(call->own);
    tool_installed done = installing->done;
    free(installing);
    done(call, result);
}

void tool_stop_install(struct mcp_call *call)
{
    struct installing *installing = TAKE_POINTER(call->own);
    install_cancel(installing->install);
    free(installing);
}

bool tool_install(struct mcp_call *call, const struct install_order *order,
                  void (*cancel)(struct mcp_call *call), tool_installed done,
                  struct problem *problem)
{
    struct install_events events = {
        .progress = progressed, .done = finished, .silent = silent, .user = call};
    struct install *install = install_begin(call->sandbox, order, &events, problem);
    if (!install)
        return false;
    struct installing *installing = must_alloc(sizeof *installing);
    *installing = (struct installing){.install = install, .done = done};
    call->own = installing;
    call_wait(call, cancel);
    return true;
}

/* --- install_packages --------------------------------------------------------------------------- */

static void say_installed(const struct install_result *result, struct buffer *text)
{
    size_t i;
    const json_t *entry;
    (void)buffer_append_text(text, "Installed:");
    json_array_foreach(result->installed, i, entry)(void) buffer_printf(
        text, "%s %s %s", i ? "," : "", json_string_value(json_object_get(entry, "name")),
        json_string_value(json_object_get(entry, "version")));
    (void)buffer_append_text(text, ".");
    if (result->restart_needed)
        (void)buffer_append_text(text, " One of them replaced a version that Python has imported: "
                                       "call restart_kernel to use the new one.");
}

static void installed(struct mcp_call *call, const struct install_result *result)
{
    _cleanup_buffer_ struct buffer text = {0};
    char note[TOOL_NOTE_SIZE];
    if (result->problem)
        return tool_fail_problem(call, result->problem);
    json_t *json = package_result_json(result);
    (void)json_object_set_new(json, "sandbox_id", json_string(call->sandbox_text));
    (void)json_object_del(json, "message"); /* the text says it in words for a model */
    if (result->success)
        say_installed(result, &text);
    else
        (void)buffer_printf(&text,
                            "Nothing was installed, the packages of the sandbox are as they were. "
                            "Correct the names or versions and try again.\n\n%s",
                            result->error);
    (void)buffer_append_text(&text, tool_note(call, note));
    _cleanup_free_ char *whole = must_copy(buffer_text(&text) ? buffer_text(&text) : "");
    rpc_mend(whole);
    tool_result(call, json, !result->success, whole);
}

/* Either way package_fields_free(). */
static bool read_arguments(json_t *arguments, struct package_fields *ret, struct problem *problem)
{
    *ret = (struct package_fields){0};
    if (json_body_value(arguments, "packages") || json_body_value(arguments, "requirements"))
        return package_fields_read(arguments, ret, problem);
    problem_set(problem, PROBLEM_INVALID_FIELD,
                "packages is missing: what to install, such as [\"polars\", \"httpx>=0.27\"].");
    return false;
}

static void begin_install(struct mcp_call *call)
{
    struct problem problem;
    struct package_fields fields;
    bool good = read_arguments(json_object_get(call->params, "arguments"), &fields, &problem);
    struct install_order order = {
        .requirements = fields.requirements, .upgrade = fields.upgrade, .pre = fields.pre};
    if (!good || !tool_install(call, &order, tool_stop_install, installed, &problem))
        tool_fail_problem(call, &problem);
    package_fields_free(&fields);
}

static void install(struct mcp_call *call, json_t *arguments)
{
    struct problem problem;
    struct package_fields fields;
    bool good = read_arguments(arguments, &fields, &problem);
    package_fields_free(&fields);
    if (good)
        tool_with_sandbox(call, arguments, begin_install);
    else
        tool_fail_problem(call, &problem);
}

/* --- check_package_status ----------------------------------------------------------------------- */

/* The package that is meant, into `name`: "" is all of them. */
static bool read_name(const json_t *arguments, char name[MAX_PACKAGE_NAME + 1],
                      struct problem *problem)
{
    const char *given = NULL;
    size_t length = 0;
    *name = '\0';
    if (!json_body_text(arguments, "package_name", &given, &length, problem))
        return false;
    if (!given || package_name_normal(given, length, name))
        return true;
    problem_set(problem, PROBLEM_INVALID_FIELD, "'%.80s' is not the name of a package.", given);
    return false;
}

/* Takes `state`. */
static void answer_one(struct mcp_call *call, json_t *state)
{
    const char *name = json_string_value(json_object_get(state, "name"));
    const char *status = json_string_value(json_object_get(state, "status"));
    const char *version = json_string_value(json_object_get(state, "version"));
    const char *error = json_string_value(json_object_get(state, "error"));
    _cleanup_free_ char *text = NULL;
    if (!status)
        return tool_fail(call, "huskd is out of memory. Try again later.");
    if (strcmp(status, "installed") == 0)
        text = must_format("%s %s is installed.", name, version);
    else if (strcmp(status, "installing") == 0)
        text = must_format("%s is being installed. Ask again in a moment.", name);
    else if (strcmp(status, "failed") == 0)
        text =
            must_format("%s is not installed; installing it failed:\n%s", name, error ? error : "");
    else
        text = must_format("%s is not installed. install_packages installs it.", name);
    rpc_mend(text);
    json_t *structured = json_pack("{s:s, s:[O], s:i}", "sandbox_id", call->sandbox_text,
                                   "packages", state, "count", 1);
    json_decref(state);
    tool_result(call, structured, false, text);
}

static void answer_all(struct mcp_call *call, json_t *list)
{
    _cleanup_buffer_ struct buffer text = {0};
    json_t *all = package_list_sorted(list);
    size_t i;
    json_t *entry;
    json_array_foreach(all, i, entry)
    {
        (void)buffer_printf(&text, "%s%s %s", i ? "\n" : "",
                            json_string_value(json_object_get(entry, "name")),
                            json_string_value(json_object_get(entry, "version")));
        (void)json_object_set_new(entry, "status", json_string("installed"));
    }
    json_int_t count = (json_int_t)json_array_size(all);
    json_t *structured = json_pack("{s:s, s:o, s:I}", "sandbox_id", call->sandbox_text, "packages",
                                   all, "count", count);
    tool_result(call, structured, false,
                text.length ? buffer_text(&text) : "No packages are installed.");
}

static void listed(const struct shim_answer *answer, void *user)
{
    struct mcp_call *call = user;
    struct problem problem;
    char name[MAX_PACKAGE_NAME + 1];
    if (answer->problem)
        return tool_fail_problem(call, answer->problem);
    json_auto_t *list = packages_read(answer->body, answer->length);
    if (!list)
        return tool_fail(call,
                         "The sandbox cannot say what is installed in it. Try again in a moment.");
    (void)read_name(json_object_get(call->params, "arguments"), name, &problem);
    if (*name)
        answer_one(call, package_state_json(call->sandbox, name, list));
    else
        answer_all(call, list);
}

static void cancel_list(struct mcp_call *call)
{
    sandbox_forget_call(call->sandbox, call->tag);
}

static void check(struct mcp_call *call, json_t *arguments)
{
    struct problem problem;
    char name[MAX_PACKAGE_NAME + 1];
    if (!read_name(arguments, name, &problem))
        return tool_fail_problem(call, &problem);
    if (!tool_find_sandbox(call, arguments, NULL))
        return;
    json_t *state = *name ? package_state_json(call->sandbox, name, NULL) : NULL;
    if (state)
        return answer_one(call, state);
    struct shim_request request = {
        .payload = "",
        .callback = listed,
        .user = call,
        .patience_ms = 2 * LIST_SECONDS * 1000 +
                       call->mcp->service->config->package_seconds * 1000 + PATIENCE_MS};
    if (sandbox_call(call->sandbox, SHIM_PACKAGES, &request, &call->tag) == 0)
        call_wait(call, cancel_list);
    else
        tool_fail(call, "Too much is waiting for this sandbox already. Try again in a moment.");
}

/* --- how models see them ------------------------------------------------------------------------ */

/* clang-format off */
const struct mcp_tool tool_install_packages = {
    .name = "install_packages",
    .run = install,
    .definition = JSON({
        "title": "Install Python packages",
        "description": "Install Python packages into a sandbox from the package index, with what they depend on. The sandbox itself has no network, so this is the way to get them (pip install inside works, too). All of them are installed, or none. Returns when they can be imported. Without sandbox_id a sandbox is made and named in the answer.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "packages": {"type": "array", "items": {"type": "string"}, "description": "Names, with versions if they matter: \"polars\", \"httpx>=0.27\", \"pydantic[email]==2.8.2\"."},
                "requirements": {"type": "string", "description": "The text of a requirements.txt, instead of packages or in addition."},
                "upgrade": {"type": "boolean", "description": "Install the newest version even if what is there would do."},
                "pre": {"type": "boolean", "description": "Take pre-releases, too."},
                "sandbox_id": {"type": "string", "description": "Id or name of the sandbox. May be left out if you have exactly one, or none yet."}
            },
            "additionalProperties": false
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "sandbox_id": {"type": "string"},
                "status": {"enum": ["success", "failed"]},
                "installed": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "version": {"type": "string"}}}},
                "output": {"type": "string", "description": "As pip says it."},
                "error": {"type": ["string", "null"]},
                "restart_needed": {"type": "boolean", "description": "Python has imported a version that was replaced: call restart_kernel."}
            },
            "required": ["sandbox_id", "status", "installed"]
        },
        "annotations": {"readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true}
    }),
};

const struct mcp_tool tool_check_package = {
    .name = "check_package_status",
    .run = check,
    .definition = JSON({
        "title": "Which packages are installed",
        "description": "Say whether a Python package is installed in a sandbox and in which version, or is being installed, or why installing it failed. Without package_name: all that are installed.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "package_name": {"type": "string", "description": "Its name as in install_packages, without a version."},
                "sandbox_id": {"type": "string", "description": "Id or name of the sandbox. May be left out if you have exactly one."}
            },
            "additionalProperties": false
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "sandbox_id": {"type": "string"},
                "packages": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "version": {"type": ["string", "null"]},
                            "status": {"enum": ["installed", "not_installed", "installing", "failed"]},
                            "error": {"type": ["string", "null"]}
                        },
                        "required": ["name", "status"]
                    }
                },
                "count": {"type": "integer"}
            },
            "required": ["sandbox_id", "packages", "count"]
        },
        "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}
    }),
};
/* clang-format on */
