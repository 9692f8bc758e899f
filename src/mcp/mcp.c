#include "mcp/mcp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "husk/limits.h"
#include "huskd/service.h"
#include "loop/loop.h"
#include "mcp/batch.h"
#include "mcp/listening.h"
#include "mcp/methods.h"
#include "mcp/session.h"
#include "mcp/tools.h"

struct mcp *mcp_new(struct service *service)
{
    struct mcp *mcp = must_alloc(sizeof *mcp);
    mcp->service = service;
    mcp->tools = tool_table_new();
    return mcp;
}

void mcp_say_goodbye(struct mcp *mcp)
{
    listening_end_all(mcp);
}

void mcp_dismiss(struct mcp *mcp)
{
    while (mcp->calls) {
        call_abandon(mcp->calls);
        call_cancel(mcp->calls);
    }
}

struct mcp *mcp_free(struct mcp *mcp)
{
    if (!mcp)
        return NULL;
    mcp_dismiss(mcp);
    session_end_all(mcp);
    tool_table_free(mcp->tools);
    timer_remove(mcp->watch);
    free(mcp);
    return NULL;
}

bool mcp_end_session(struct mcp *mcp, const char *session_id)
{
    struct mcp_session *session = session_find(mcp, session_id);
    if (session)
        session_end(mcp, session);
    return session != NULL;
}

/* --- one call ----------------------------------------------------------------------------------- */

/* A call that carries the answer to a message, whatever became of it. */
static struct mcp_call *open_call(struct mcp *mcp, const struct mcp_input *input, json_t *id)
{
    struct mcp_call *call = call_new(mcp);
    call->outlet = input->outlet;
    call->user = input->user;
    call->id = json_incref(id);
    call->version = MCP_LATEST_LEGACY;
    call->handling = true;
    return call;
}

/* Its handler has returned. */
static enum mcp_outcome settle(struct mcp_call *call, struct mcp_call **ret_call)
{
    call->handling = false;
    if (call->answered) {
        call_free(call);
        return MCP_REPLIED;
    }
    *ret_call = call;
    return MCP_WAITS;
}

static enum mcp_outcome refuse(struct mcp *mcp, const struct mcp_input *input, json_t *id,
                               const struct mcp_refusal *refusal)
{
    struct mcp_call *call = open_call(mcp, input, id);
    struct mcp_call *none;
    json_t *data = NULL;
    if (refusal->requested)
        data = json_pack("{s:[s], s:s}", "supported", MCP_MODERN_VERSION, "requested",
                         refusal->requested);
    call_fail(call, refusal->status, refusal->code, data, "%s", refusal->text);
    return settle(call, &none);
}

static enum mcp_outcome refuse_text(struct mcp *mcp, const struct mcp_input *input, json_t *id,
                                    unsigned status, enum rpc_code code, const char *text)
{
    struct mcp_refusal refusal = {.status = status, .code = code};
    (void)snprintf(refusal.text, sizeof refusal.text, "%s", text);
    return refuse(mcp, input, id, &refusal);
}

static void read_token(struct mcp_call *call, const struct rpc_message *message)
{
    json_t *token = json_object_get(message->meta, "progressToken");
    if (json_is_integer(token) ||
        (json_is_string(token) && json_string_length(token) <= MAX_MCP_ID_BYTES))
        call->token = json_incref(token);
}

static bool has_room(const struct mcp *mcp, const struct mcp_session *session, size_t length)
{
    return mcp->call_count <= MAX_MCP_CALLS && mcp->held_bytes + length <= MAX_MCP_HELD_BYTES &&
           (!session || session->call_count < MAX_MCP_SESSION_CALLS);
}

/* The body is freed when its request is handled, what was read from it when the call ends: steals `params`. */
static void hold(struct mcp_call *call, json_t *params, size_t length)
{
    call->params = params;
    call->weight = length;
    call->mcp->held_bytes += length;
}

static enum mcp_outcome take_request(struct mcp *mcp, const struct mcp_input *input,
                                     const struct rpc_message *message, enum mcp_era era,
                                     struct mcp_call **ret_call)
{
    struct mcp_session *session = era == MCP_LEGACY ? input->session : NULL;
    if (!has_room(mcp, session, input->length))
        return refuse_text(mcp, input, message->id, 429, RPC_REFUSED,
                           "Too many calls wait for an answer. Try again in a moment.");
    struct mcp_call *call = open_call(mcp, input, message->id);
    call->era = era;
    call->version = era == MCP_MODERN ? MCP_MODERN_VERSION
                    : session         ? session->version
                                      : era_negotiate(input->headers.version);
    call->session = session;
    if (session)
        session->call_count++;
    hold(call, json_incref(message->params), input->length);
    read_token(call, message);
    call->small = input->small_events && (call->token || input->headers.handshake);
    method_handle(call, message->method);
    return settle(call, ret_call);
}

/* --- notifications ------------------------------------------------------------------------------ */

/* Of a session only: without one nobody can say whose request it is, and modern clients close the connection instead. */
static void take_cancellation(struct mcp *mcp, const struct mcp_session *session,
                              const struct rpc_message *message)
{
    const json_t *id = json_object_get(message->params, "requestId");
    for (struct mcp_call *call = mcp->calls; session && id && call; call = call->next) {
        if (call->session == session && json_equal(call->id, id)) {
            call_withdraw(call);
            return;
        }
    }
}

/* --- messages ----------------------------------------------------------------------------------- */

/* The session that the headers name. False: they name one that is not there (any more). */
static bool find_session(struct mcp *mcp, const struct rpc_message *message,
                         struct mcp_input *input)
{
    const char *named = input->headers.session;
    bool begins = message->method && strcmp(message->method, "initialize") == 0;
    if (input->session || !named || begins)
        return true;
    input->session = session_find(mcp, named);
    return input->session != NULL;
}

static enum mcp_outcome take_message(struct mcp *mcp, struct mcp_input input,
                                     const struct rpc_message *message, struct mcp_call **ret_call)
{
    enum mcp_era era;
    struct mcp_refusal refusal;
    if (message->kind == RPC_INVALID)
        return refuse_text(mcp, &input, message->id, 400, RPC_INVALID_REQUEST, message->fault);
    if (message->kind == RPC_RESPONSE)
        return MCP_SILENT; /* we ask nothing */
    if (!era_judge(message, &input.headers, &era, &refusal))
        return refuse(mcp, &input, message->id, &refusal);
    if (era == MCP_LEGACY && !find_session(mcp, message, &input))
        return refuse_text(mcp, &input, message->id, 404, RPC_SESSION_NOT_FOUND,
                           "There is no such session (any more). Initialize a new one.");
    if (message->kind == RPC_REQUEST)
        return take_request(mcp, &input, message, era, ret_call);
    if (era == MCP_LEGACY && strcmp(message->method, "notifications/cancelled") == 0)
        take_cancellation(mcp, input.session, message);
    return MCP_SILENT;
}

/* Batches were in one revision only. Elsewhere, and where no version is known, they are taken all the same, as the reference
 * implementation does; but what claims to be modern is not batched. */
static enum mcp_outcome take_batch(struct mcp *mcp, const struct mcp_input *input, json_t *list,
                                   struct mcp_call **ret_call)
{
    size_t i;
    json_t *item;
    struct mcp_input outer = *input;
    if (json_array_size(list) == 0 || json_array_size(list) > MAX_MCP_BATCH)
        return refuse_text(mcp, input, NULL, 400, RPC_INVALID_REQUEST,
                           "A batch has at least one message and at most 32.");
    json_array_foreach(list, i, item)
    {
        struct rpc_message message = rpc_read(item);
        if (era_claims(&message) || (message.method && strcmp(message.method, "initialize") == 0))
            return refuse_text(mcp, input, NULL, 400, RPC_INVALID_REQUEST,
                               "This message cannot be in a batch.");
    }
    if (!find_session(mcp, &(struct rpc_message){0}, &outer))
        return refuse_text(mcp, input, NULL, 404, RPC_SESSION_NOT_FOUND,
                           "There is no such session (any more). Initialize a new one.");
    if (outer.session && strcmp(outer.session->version, "2025-03-26") != 0)
        return refuse_text(mcp, input, NULL, 400, RPC_INVALID_REQUEST,
                           "Batches are only in version 2025-03-26 of MCP.");
    struct mcp_call *carrier = open_call(mcp, &outer, NULL);
    struct batch *batch = batch_new(carrier);
    json_array_foreach(list, i, item)
    {
        struct rpc_message message = rpc_read(item);
        struct mcp_input inner = outer;
        struct mcp_call *ignored;
        batch_enter(batch, &inner);
        inner.length = input->length / json_array_size(list);
        if (take_message(mcp, inner, &message, &ignored) == MCP_SILENT)
            batch_skip(batch);
    }
    if (batch_close(batch))
        return settle(carrier, ret_call);
    call_free(carrier);
    return MCP_SILENT;
}

enum mcp_outcome mcp_receive(struct mcp *mcp, const struct mcp_input *input,
                             struct mcp_call **ret_call)
{
    char fault[RPC_FAULT_SIZE];
    json_auto_t *json = rpc_parse(input->text, input->length, fault);
    if (!json)
        return refuse_text(mcp, input, NULL, 400, RPC_PARSE_ERROR, fault);
    if (json_is_array(json))
        return take_batch(mcp, input, json, ret_call);
    struct rpc_message message = rpc_read(json);
    return take_message(mcp, *input, &message, ret_call);
}

enum mcp_outcome mcp_receive_tool(struct mcp *mcp, const char *tool, const struct mcp_input *input,
                                  struct mcp_call **ret_call)
{
    char fault[RPC_FAULT_SIZE];
    json_auto_t *arguments =
        input->length ? rpc_parse(input->text, input->length, fault) : json_object();
    if (!arguments)
        return refuse_text(mcp, input, NULL, 400, RPC_PARSE_ERROR, fault);
    if (!json_is_object(arguments))
        return refuse_text(mcp, input, NULL, 400, RPC_INVALID_REQUEST,
                           "The body must be a JSON object: the arguments of the tool.");
    if (!has_room(mcp, NULL, input->length))
        return refuse_text(mcp, input, NULL, 429, RPC_REFUSED,
                           "Too many calls wait for an answer. Try again in a moment.");
    struct mcp_call *call = open_call(mcp, input, NULL);
    call->plain = true;
    hold(call, json_pack("{s:s, s:O}", "name", tool, "arguments", arguments), input->length);
    method_handle(call, "tools/call");
    return settle(call, ret_call);
}
