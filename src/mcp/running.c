/* What the tools have in common that run something in a sandbox: the sandbox is made if there is none, and its shim makes the
 * result in the form that a tool's has to have. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "husk/limits.h"
#include "huskd/config.h"
#include "huskd/create_fields.h"
#include "huskd/problem.h"
#include "huskd/record.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "mcp/mcp.h"
#include "mcp/session.h"
#include "mcp/tools.h"

enum {
    PATIENCE_MS = SHIM_PATIENCE_SECONDS * 1000,
    MAX_PROGRESS_BYTES = 2 * KIB
};

/* --- which sandbox it was ----------------------------------------------------------------------- */

const char *tool_note(const struct mcp_call *call, char note[TOOL_NOTE_SIZE])
{
    *note = '\0';
    if (call->made_sandbox)
        (void)snprintf(note, TOOL_NOTE_SIZE,
                       " This is in a new sandbox, %s: pass sandbox_id \"%s\" to go on in it.",
                       call->sandbox_text, call->sandbox_text);
    return note;
}

/* --- running ------------------------------------------------------------------------------------ */

json_t *tool_order(const struct mcp_call *call)
{
    json_t *order = json_pack("{s:s, s:b, s:b, s:b}", "sandbox", call->sandbox_text, "links",
                              strcmp(call->version, "2025-06-18") >= 0, "progress",
                              call->token != NULL, "small", call->small);
    if (call->made_sandbox)
        (void)json_object_set_new(
            order, "note",
            json_sprintf(
                "This ran in a new sandbox, %s. Pass sandbox_id \"%s\" to go on in it with "
                "its variables and files.",
                call->sandbox_text, call->sandbox_text));
    return order;
}

/* In a stream a line end would be the end of the message, and what follows another one. */
static bool one_line(const char *text, size_t length)
{
    return !memchr(text, '\n', length) && !memchr(text, '\r', length);
}

static void executed(const struct shim_answer *answer, void *user)
{
    struct mcp_call *call = user;
    if (answer->problem)
        tool_fail_problem(call, answer->problem);
    else if (one_line(answer->body, answer->length))
        call_answer_members(call, answer->body, answer->length);
    else
        tool_fail(call, "The sandbox sent something that it must not send.");
}

/* Passed on at once, or dropped: so there is always credit for more. */
static void progressed(const char *data, size_t length, void *user)
{
    struct mcp_call *call = user;
    sandbox_credit_call(call->sandbox, call->tag, length);
    if (length <= MAX_PROGRESS_BYTES && one_line(data, length))
        call_progress(call, data, length);
}

static void cancel_call(struct mcp_call *call)
{
    sandbox_forget_call(call->sandbox, call->tag);
}

void tool_run_in_shim(struct mcp_call *call, enum shim_type type, const char *message,
                      double timeout)
{
    struct shim_request request = {.payload = message,
                                   .length = strlen(message),
                                   .callback = executed,
                                   .data = call->token ? progressed : NULL,
                                   .user = call,
                                   .patience_ms = (uint64_t)(timeout * 1000) + PATIENCE_MS};
    int r = sandbox_call(call->sandbox, type, &request, &call->tag);
    call_drop_params(call); /* it has the message now */
    if (r == 0)
        call_wait(call, cancel_call);
    else
        tool_fail(call, "Too much is waiting for this sandbox already. Try again in a moment.");
}

/* --- in a sandbox that has to be made first ----------------------------------------------------- */

static void made(struct sandbox *sandbox, const struct problem *problem, void *user)
{
    struct mcp_call *call = user;
    if (problem)
        return tool_fail_problem(call, problem);
    call->sandbox = sandbox;
    call->made_sandbox = true;
    memcpy(call->sandbox_text, sandbox->text, sizeof call->sandbox_text);
    if (call->session)
        session_remember(call->session, call->mcp->service, sandbox->id);
    call->then(call);
}

static void cancel_create(struct mcp_call *call)
{
    sandbox_abandon(call->sandbox);
}

/* Nobody may know that it is there, so it ends when it is not used for a while. */
static void make_sandbox(struct mcp_call *call)
{
    const struct config *config = call->mcp->service->config;
    struct problem problem;
    struct record record;
    json_auto_t *nothing = json_object();
    if (!create_fields_read(nothing, config, &record, &problem))
        return tool_fail_problem(call, &problem);
    if (record.idle_seconds == 0)
        record.idle_seconds = config->idle_seconds.maximum < MCP_DEFAULT_IDLE_SECONDS
                                  ? (uint32_t)config->idle_seconds.maximum
                                  : MCP_DEFAULT_IDLE_SECONDS;
    struct sandbox_waiter waiter = {.callback = made, .user = call};
    call->sandbox = sandbox_create(call->mcp->service, &record, NULL, waiter, &problem);
    if (!call->sandbox)
        tool_fail_problem(call, &problem);
    else if (sandbox_live(call->sandbox))
        made(call->sandbox, NULL, call);
    else
        call_wait(call, cancel_create);
}

void tool_with_sandbox(struct mcp_call *call, const json_t *arguments,
                       void (*then)(struct mcp_call *call))
{
    bool none;
    call->then = then;
    if (tool_find_sandbox(call, arguments, &none))
        then(call);
    else if (none)
        make_sandbox(call);
}
