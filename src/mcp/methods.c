#include "mcp/methods.h"

#include <string.h>

#include "base/attributes.h"
#include "husk/version.h"
#include "mcp/call.h"
#include "mcp/era.h"
#include "mcp/listening.h"
#include "mcp/mcp.h"
#include "mcp/prompts.h"
#include "mcp/resource_list.h"
#include "mcp/resources.h"
#include "mcp/session.h"
#include "mcp/subscriptions.h"
#include "mcp/tools.h"

#define CAPABILITIES                                                                               \
    "\"capabilities\":{\"tools\":{},\"resources\":{\"subscribe\":true},\"prompts\":{},"            \
    "\"completions\":{}}"
#define INSTRUCTIONS                                                                               \
    "\"instructions\":\"Husk runs Python in isolated sandboxes. Call execute_python_code with "    \
    "your "                                                                                        \
    "code: a sandbox is made if you have none, and its id is in the answer. Variables and files "  \
    "stay between calls. Plots come back as images, files as resources. The prompt "               \
    "python_sandbox explains the workflow.\""

static void answer_text(struct mcp_call *call, const char *members)
{
    call_answer_members(call, members, strlen(members));
}

/* --- who is there ------------------------------------------------------------------------------- */

/* A client that speaks an unknown version is offered ours. Without room for a session it is served without one. */
static void initialize(struct mcp_call *call)
{
    const json_t *version = json_object_get(call->params, "protocolVersion");
    if (!json_is_string(version))
        return call_fail(call, 200, RPC_INVALID_PARAMS, NULL,
                         "params.protocolVersion must be a string.");
    call->version = era_negotiate(json_string_value(version));
    struct mcp_session *session = call->session;
    if (session) {
        session->version = call->version;
    } else {
        session = session_begin(call->mcp, call->version);
        call->session_id = session ? session->text : NULL;
    }
    _cleanup_buffer_ struct buffer members = {0};
    (void)buffer_printf(
        &members,
        "\"protocolVersion\":\"%s\"," CAPABILITIES
        ",\"serverInfo\":{\"name\":\"husk\",\"title\":\"Husk\",\"version\":\"%s\"}," INSTRUCTIONS,
        call->version, HUSK_VERSION);
    call_answer_members(call, members.data, members.length);
}

static void discover(struct mcp_call *call)
{
    call->shared_cache = true;
    answer_text(call, "\"supportedVersions\":[\"" MCP_MODERN_VERSION "\"]," CAPABILITIES
                      "," INSTRUCTIONS);
}

static void ping(struct mcp_call *call)
{
    answer_text(call, "");
}

/* --- the table ---------------------------------------------------------------------------------- */

enum {
    LEGACY = 1 << MCP_LEGACY,
    MODERN = 1 << MCP_MODERN,
    BOTH = LEGACY | MODERN
};

static const struct {
    const char *name;
    int eras;
    bool cacheable;
    bool whole; /* a list in one piece, so no cursor was ever given out */
    void (*handle)(struct mcp_call *call);
} methods[] = {
    {"initialize", LEGACY, false, false, initialize},
    {"ping", LEGACY, false, false, ping},
    {"server/discover", MODERN, true, false, discover},
    {"tools/list", BOTH, true, true, tools_list},
    {"tools/call", BOTH, false, false, tools_call},
    {"resources/list", BOTH, true, false, resources_list},
    {"resources/templates/list", BOTH, true, true, resources_templates},
    {"resources/read", BOTH, true, false, resources_read},
    {"resources/subscribe", LEGACY, false, false, subscriptions_add},
    {"resources/unsubscribe", LEGACY, false, false, subscriptions_remove},
    {"subscriptions/listen", MODERN, false, false, listening_begin},
    {"prompts/list", BOTH, true, true, prompts_list},
    {"prompts/get", BOTH, false, false, prompts_get},
    {"completion/complete", BOTH, false, false, completion_complete},
};

void method_handle(struct mcp_call *call, const char *method)
{
    for (size_t i = 0; i < ARRAY_LENGTH(methods); i++) {
        if (strcmp(methods[i].name, method) != 0 || !(methods[i].eras & (1 << call->era)))
            continue;
        call->cacheable = methods[i].cacheable;
        if (methods[i].whole && json_object_get(call->params, "cursor"))
            call_fail(call, 200, RPC_INVALID_PARAMS, NULL, "This cursor is not one of ours.");
        else
            methods[i].handle(call);
        return;
    }
    call_fail_unknown(call, method);
}
