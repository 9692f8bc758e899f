#include "mcp/tools.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "base/memory.h"
#include "huskd/file_path.h"
#include "huskd/file_problem.h"
#include "huskd/json_body.h"
#include "huskd/problem.h"
#include "huskd/registry.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "mcp/catalog.h"
#include "mcp/mcp.h"
#include "mcp/session.h"
#include "mcp/view.h"

static const struct mcp_tool *const own_tools[] = {
    &tool_execute,       &tool_command,          &tool_create_sandbox, &tool_list_sandboxes,
    &tool_close_sandbox, &tool_install_packages, &tool_check_package,  &tool_extend_sandbox,
    &tool_interrupt,     &tool_restart,          &tool_list_files,     &tool_read_file,
    &tool_write_file,    &tool_delete_file,      &tool_upload_file,    &tool_download_file,
    &tool_copy_project,
};

/* --- the table ---------------------------------------------------------------------------------- */

struct entry {
    const struct mcp_tool *tool;
    json_t *schema; /* of its arguments */
};

struct tool_table {
    struct entry *entries;
    size_t count;
    char *list; /* members of the answer to tools/list */
};

static json_t *add_tool(struct tool_table *table, const struct mcp_tool *tool)
{
    json_t *definition = json_pack("{s:s}", "name", tool->name);
    json_t *rest = json_loads(tool->definition, 0, NULL);
    husk_assert(rest && json_object_update_new(definition, rest) == 0);
    json_t *schema = json_object_get(definition, "inputSchema");
    table->entries[table->count++] = (struct entry){.tool = tool, .schema = json_incref(schema)};
    return definition;
}

struct tool_table *tool_table_new(void)
{
    struct tool_table *table = must_alloc(sizeof *table);
    json_auto_t *list = json_array();
    table->entries =
        must_alloc((ARRAY_LENGTH(own_tools) + mcp_catalog.tool_count) * sizeof *table->entries);
    for (size_t i = 0; i < ARRAY_LENGTH(own_tools); i++)
        (void)json_array_append_new(list, add_tool(table, own_tools[i]));
    for (size_t i = 0; i < mcp_catalog.tool_count; i++)
        (void)json_array_append_new(list, add_tool(table, mcp_catalog.tools[i]));
    char *text = json_dumps(list, JSON_COMPACT);
    husk_assert(text != NULL);
    table->list = must_format("\"tools\":%s", text);
    free(text);
    return table;
}

struct tool_table *tool_table_free(struct tool_table *table)
{
    if (!table)
        return NULL;
    for (size_t i = 0; i < table->count; i++)
        json_decref(table->entries[i].schema);
    free(table->entries);
    free(table->list);
    free(table);
    return NULL;
}

static const struct entry *find_tool(const struct tool_table *table, const json_t *name)
{
    for (size_t i = 0; i < table->count; i++) {
        const char *own = table->entries[i].tool->name;
        if (strlen(own) == json_string_length(name) && strcmp(own, json_string_value(name)) == 0)
            return &table->entries[i];
    }
    return NULL;
}

/* --- methods ------------------------------------------------------------------------------------ */

void tools_list(struct mcp_call *call)
{
    const char *list = call->mcp->tools->list;
    call->shared_cache = true;
    call_answer_members(call, list, strlen(list));
}

/* The first argument that the tool does not have; NULL: it has them all. A model that guessed a name should learn of it. */
static const char *foreign_argument(const struct entry *entry, json_t *arguments)
{
    const json_t *known = json_object_get(entry->schema, "properties");
    const char *key;
    json_t *value;
    json_object_foreach(arguments, key, value)
    {
        if (!json_object_get(known, key))
            return key;
    }
    return NULL;
}

static void fail_foreign(struct mcp_call *call, const struct entry *entry, const char *argument)
{
    const json_t *known = json_object_get(entry->schema, "properties");
    _cleanup_buffer_ struct buffer names = {0};
    const char *key;
    json_t *value;
    if (entry->tool->local && strcmp(argument, "local_path") == 0)
        return tool_fail(
            call,
            "local_path works only over `husk mcp` (stdio), which runs where the files "
            "of the user are. This server cannot see them. %s",
            entry->tool->local);
    json_object_foreach((json_t *)(uintptr_t)known, key, value)
    {
        (void)buffer_printf(&names, "%s%s", names.length ? ", " : "", key);
    }
    tool_fail(call, "%s has no argument %.60s. It takes: %s.", entry->tool->name, argument,
              names.length ? buffer_text(&names) : "nothing");
}

static bool has_capability(const struct mcp_call *call, const char *name)
{
    const json_t *meta = json_object_get(call->params, "_meta");
    const json_t *capabilities =
        json_object_get(meta, "io.modelcontextprotocol/clientCapabilities");
    return json_object_get(capabilities, name) != NULL;
}

void tools_call(struct mcp_call *call)
{
    const json_t *name = json_object_get(call->params, "name");
    json_t *arguments = json_object_get(call->params, "arguments");
    if (!json_is_string(name))
        return call_fail(call, 200, RPC_INVALID_PARAMS, NULL, "params.name must be a string.");
    const struct entry *entry = find_tool(call->mcp->tools, name);
    if (!entry)
        return call_fail(call, 200, RPC_INVALID_PARAMS, NULL,
                         "There is no tool %.128s. tools/list names those that there are.",
                         json_string_value(name));
    if (entry->tool->needs && call->era == MCP_MODERN && !has_capability(call, entry->tool->needs))
        return call_fail(call, 400, RPC_MISSING_CAPABILITY,
                         json_pack("{s:{s:{}}}", "requiredCapabilities", entry->tool->needs),
                         "This tool needs a client that has %s.", entry->tool->needs);
    if (arguments && !json_is_null(arguments) && !json_is_object(arguments))
        return call_fail(call, 200, RPC_INVALID_PARAMS, NULL,
                         "params.arguments must be an object.");
    if (!json_is_object(arguments)) {
        arguments = json_object();
        if (!call->params)
            call->params = json_object();
        (void)json_object_set_new(call->params, "arguments", arguments);
    }
    const char *foreign = foreign_argument(entry, arguments);
    if (foreign)
        return fail_foreign(call, entry, foreign);
    entry->tool->run(call, arguments);
}

/* --- results ------------------------------------------------------------------------------------ */

void tool_result(struct mcp_call *call, json_t *structured, bool is_error, const char *text)
{
    call_answer(call, json_pack("{s:[{s:s, s:s}], s:o*, s:b}", "content", "type", "text", "text",
                                text, "structuredContent", structured, "isError", is_error));
}

void tool_answer(struct mcp_call *call, json_t *structured, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    tool_result(call, structured, false, text ? text : "");
    free(text);
}

void tool_fail(struct mcp_call *call, const char *format, ...)
{
    char text[600];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    rpc_mend(text);
    tool_result(call, NULL, true, text);
}

void tool_fail_problem(struct mcp_call *call, const struct problem *problem)
{
    static const struct {
        enum problem_kind kind;
        const char *advice;
    } known[] = {
        {PROBLEM_SANDBOX_NOT_FOUND,
         "list_sandboxes shows those that there are, create_sandbox makes a new one."},
        {PROBLEM_SANDBOX_CLOSED,
         "Its variables and files are gone. Call create_sandbox to go on in a new one."},
        {PROBLEM_AT_CAPACITY, "close_sandbox ends one that is not needed any more."},
        {PROBLEM_FILE_NOT_FOUND, "list_files shows what is there."},
    };
    const char *advice = "";
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        if (known[i].kind == problem->kind)
            advice = known[i].advice;
    }
    /* What it says to programs, a tool says better. */
    const char *route = *advice ? strstr(problem->detail, " GET /") : NULL;
    size_t length = route ? (size_t)(route - problem->detail) : strlen(problem->detail);
    tool_fail(call, "%.*s%s%s", (int)length, problem->detail, *advice ? " " : "", advice);
}

/* --- which sandbox ------------------------------------------------------------------------------ */

static void use_sandbox(struct mcp_call *call, struct sandbox *sandbox)
{
    call->sandbox = sandbox;
    memcpy(call->sandbox_text, sandbox->text, sizeof call->sandbox_text);
}

static void fail_ambiguous(struct mcp_call *call)
{
    const struct mcp_session *session = call->session;
    _cleanup_buffer_ struct buffer ids = {0};
    for (size_t i = 0; i < session->sandbox_count; i++) {
        char text[ID_TEXT_SIZE];
        id_format(session->sandboxes[i], text);
        (void)buffer_printf(&ids, "%s%s", i ? ", " : "", text);
    }
    tool_fail(call, "There are %zu sandboxes: say with sandbox_id which one is meant. %.400s",
              session->sandbox_count, ids.length ? buffer_text(&ids) : "");
}

/* Not named: what the session remembers. A caller of whom nothing is remembered has none. */
static bool find_own(struct mcp_call *call, bool *ret_none)
{
    const struct service *service = call->mcp->service;
    size_t count = call->session ? session_sandboxes(call->session, service) : 0;
    if (count == 1) {
        use_sandbox(call, registry_find_id(service->registry, call->session->sandboxes[0]));
        return true;
    }
    if (count > 1)
        fail_ambiguous(call);
    else if (ret_none)
        *ret_none = true;
    else
        tool_fail(call, "Say with sandbox_id which sandbox is meant. list_sandboxes shows those "
                        "that there are.");
    return false;
}

bool tool_find_sandbox(struct mcp_call *call, const json_t *arguments, bool *ret_none)
{
    struct problem problem;
    const char *reference = NULL;
    size_t length = 0;
    if (ret_none)
        *ret_none = false;
    if (!json_body_text(arguments, "sandbox_id", &reference, &length, &problem)) {
        tool_fail_problem(call, &problem);
        return false;
    }
    if (!reference || length == 0)
        return find_own(call, ret_none);
    struct sandbox *sandbox = view_find(call, reference, &problem);
    if (sandbox)
        use_sandbox(call, sandbox);
    else
        tool_fail_problem(call, &problem);
    return sandbox != NULL;
}

bool tool_sandbox_lives(struct mcp_call *call)
{
    struct problem problem;
    struct sandbox *sandbox = view_find(call, call->sandbox_text, &problem);
    if (sandbox)
        sandbox_used(sandbox);
    else
        tool_fail_problem(call, &problem);
    return sandbox != NULL;
}

bool tool_read_path(struct mcp_call *call, const json_t *arguments, const char *key,
                    char path[MAX_FILE_PATH_BYTES + 1])
{
    struct problem problem;
    const char *text = "";
    size_t length = 0;
    bool good = json_body_text(arguments, key, &text, &length, &problem);
    if (good) {
        int r = strlen(text) == length ? file_path_clean(text, path) : -EINVAL;
        if (r == 0)
            return true;
        file_problem_of_path(&problem, text, r);
    }
    tool_fail_problem(call, &problem);
    return false;
}
