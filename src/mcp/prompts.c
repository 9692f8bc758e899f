#include "mcp/prompts.h"

#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/text.h"
#include "husk/limits.h"
#include "huskd/registry.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "mcp/call.h"
#include "mcp/catalog.h"
#include "mcp/mcp.h"
#include "mcp/tools.h"
#include "mcp/view.h"

/* --- the prompt --------------------------------------------------------------------------------- */

static const char prompt_name[] = "python_sandbox";

/* clang-format off */
static const char definition[] = JSON({
    "name": "python_sandbox",
    "title": "Work in a Python sandbox",
    "description": "Explains to a model how to get something done with code in a sandbox: create, install, run, save figures, fetch files.",
    "arguments": [{"name": "task", "title": "Task", "description": "What is to be done.", "required": false}]
});
/* clang-format on */

static const char workflow[] =
    "You can run Python in an isolated sandbox. How to work with it:\n"
    "1. Call execute_python_code with your code. Without a sandbox_id a sandbox is made; its id is "
    "in "
    "the answer. Pass it as sandbox_id from then on. (create_sandbox makes one with a name or with "
    "other limits.)\n"
    "2. The sandbox is like a notebook: variables, imports and files stay between calls. Work in "
    "small "
    "steps, look at the output, go on. End with an expression to see its value.\n"
    "3. numpy, pandas, scipy and matplotlib are installed; install_packages gets others. There is "
    "no "
    "network inside. execute_terminal_command runs shell commands beside Python, on the same "
    "files.\n"
    "4. Plots that you draw with matplotlib come back as images. To keep a figure, save it with "
    "plt.savefig('name.png') in the working directory, /home/user.\n"
    "5. Files that your code creates or changes are listed as links: read them as resources, "
    "husk://{sandbox}/{path}, or with read_file and download_file. write_file, upload_file and "
    "copy_project bring files in, list_files shows what is there.\n"
    "6. If an error comes back, read the traceback, correct the code and run it again. If the "
    "kernel was "
    "replaced, variables are lost and files are kept.\n"
    "7. Code that takes longer than a minute needs a larger timeout_seconds; interrupt_execution "
    "stops it, "
    "restart_kernel gives a fresh Python.\n"
    "8. When the work is done, call close_sandbox.";

void prompts_list(struct mcp_call *call)
{
    _cleanup_buffer_ struct buffer members = {0};
    call->shared_cache = true;
    (void)buffer_printf(&members, "\"prompts\":[%s%s%s]", definition,
                        *mcp_catalog.prompts ? "," : "", mcp_catalog.prompts);
    call_answer_members(call, members.data, members.length);
}

void prompts_get(struct mcp_call *call)
{
    const json_t *given = json_object_get(call->params, "name");
    const char *name = json_string_value(given);
    const json_t *arguments = json_object_get(call->params, "arguments");
    const json_t *task = json_object_get(arguments, "task");
    if (!name || (arguments && !json_is_object(arguments)) || (task && !json_is_string(task)))
        return call_fail(
            call, 200, RPC_INVALID_PARAMS, NULL,
            "params.name must be a string, and params.arguments an object of strings.");
    if (mcp_catalog.get_prompt(call, name, arguments))
        return;
    if (strcmp(name, prompt_name) != 0 || strlen(name) != json_string_length(given))
        return call_fail(call, 200, RPC_INVALID_PARAMS, NULL, "There is no prompt %.128s.", name);
    json_t *text = task ? json_sprintf("%s\n\nThe task: %s", workflow, json_string_value(task))
                        : json_string(workflow);
    call_answer(call, json_pack("{s:s, s:[{s:s, s:{s:s, s:o}}]}", "description",
                                "How to work in a Python sandbox", "messages", "role", "user",
                                "content", "type", "text", "text", text));
}

/* --- completion --------------------------------------------------------------------------------- */

static void add_if_matching(json_t *values, const char *text, const char *beginning, size_t *count)
{
    if (!*text || !starts_with(text, beginning))
        return;
    if (++*count <= MAX_MCP_COMPLETIONS)
        (void)json_array_append_new(values, json_string(text));
}

/* Names and ids of sandboxes that begin so. */
static size_t complete_sandbox(const struct mcp_call *call, const char *beginning, json_t *values)
{
    size_t count = 0;
    const struct registry *registry = call->mcp->service->registry;
    for (const struct sandbox *s = registry_first(registry); s; s = registry_next(s)) {
        if (!view_has(call, s))
            continue;
        add_if_matching(values, s->record.name, beginning, &count);
        add_if_matching(values, s->text, beginning, &count);
    }
    return count;
}

void completion_complete(struct mcp_call *call)
{
    const json_t *ref = json_object_get(call->params, "ref");
    const json_t *argument = json_object_get(call->params, "argument");
    const char *type = json_string_value(json_object_get(ref, "type"));
    const char *name = json_string_value(json_object_get(argument, "name"));
    const char *value = json_string_value(json_object_get(argument, "value"));
    bool known = type && (!strcmp(type, "ref/prompt") || !strcmp(type, "ref/resource"));
    if (!known || !name || !value)
        return call_fail(
            call, 200, RPC_INVALID_PARAMS, NULL,
            "params.ref must name a prompt or a resource template, and params.argument "
            "must have a name and a value.");
    json_t *values = json_array();
    size_t count = 0;
    if (strcmp(type, "ref/resource") == 0 && strcmp(name, "sandbox") == 0)
        count = complete_sandbox(call, value, values);
    call_answer(call, json_pack("{s:{s:o, s:I, s:b}}", "completion", "values", values, "total",
                                (json_int_t)count, "hasMore", count > MAX_MCP_COMPLETIONS));
}
