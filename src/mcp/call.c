#include "mcp/call.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/memory.h"
#include "husk/limits.h"
#include "husk/version.h"
#include "mcp/mcp.h"
#include "mcp/session.h"

enum {
    LIST_TTL_MS = 60000
};

#define SERVER_INFO                                                                                \
    "\"io.modelcontextprotocol/serverInfo\":{\"name\":\"husk\",\"title\":\"Husk\","                \
    "\"version\":\"" HUSK_VERSION "\"}"

/* --- life --------------------------------------------------------------------------------------- */

struct mcp_call *call_new(struct mcp *mcp)
{
    struct mcp_call *call = must_alloc(sizeof *call);
    call->mcp = mcp;
    call->next = mcp->calls;
    if (mcp->calls)
        mcp->calls->previous = call;
    mcp->calls = call;
    mcp->call_count++;
    return call;
}

void call_free(struct mcp_call *call)
{
    if (call->previous)
        call->previous->next = call->next;
    else
        call->mcp->calls = call->next;
    if (call->next)
        call->next->previous = call->previous;
    call->mcp->call_count--;
    if (call->session)
        call->session->call_count--;
    if (call->own && call->own_free)
        call->own_free(call->own);
    call_drop_params(call);
    json_decref(call->id);
    json_decref(call->token);
    free(call);
}

void call_drop_params(struct mcp_call *call)
{
    json_decref(call->params);
    call->params = NULL;
    call->mcp->held_bytes -= call->weight;
    call->weight = 0;
}

void call_wait(struct mcp_call *call, void (*cancel)(struct mcp_call *call))
{
    call->cancel = cancel;
}

/* Gives the answer away, and the call with it. */
static void give(struct mcp_call *call, struct mcp_reply reply)
{
    husk_assert(!call->answered);
    call->answered = true;
    call->cancel = NULL;
    reply.session_id = call->session_id;
    if (call->outlet)
        call->outlet->reply(call->user, &reply);
    if (!call->handling)
        call_free(call);
}

/* --- encoding ----------------------------------------------------------------------------------- */

static int append_id(const struct mcp_call *call, struct buffer *out)
{
    _cleanup_free_ char *id =
        call->id ? json_dumps(call->id, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    return id ? buffer_printf(out, "\"id\":%s,", id) : 0;
}

int call_append_subscription(const struct mcp_call *call, struct buffer *out)
{
    _cleanup_free_ char *id = json_dumps(call->id, JSON_COMPACT | JSON_ENCODE_ANY);
    return id ? buffer_printf(out, "\"io.modelcontextprotocol/subscriptionId\":%s", id) : -ENOMEM;
}

/* Who answers, and, of a call that listened, which one it was. */
static int append_meta(const struct mcp_call *call, struct buffer *out)
{
    int r = buffer_append_text(out, ",\"_meta\":{");
    if (r == 0 && call->lasts)
        r = call_append_subscription(call, out);
    return r == 0 ? buffer_printf(out, "%s" SERVER_INFO "}", call->lasts ? "," : "") : r;
}

/* `{"jsonrpc":"2.0","id":…,"result":{…}}`, in the shape of its era. */
static int encode_result(const struct mcp_call *call, const char *members, size_t length,
                         struct buffer *out)
{
    bool modern = call->era == MCP_MODERN;
    int r = 0;
    if (!call->plain)
        r = buffer_append_text(out, "{\"jsonrpc\":\"2.0\",");
    if (r == 0 && !call->plain)
        r = append_id(call, out);
    if (r == 0)
        r = buffer_append_text(out, call->plain ? "{" : "\"result\":{");
    if (r == 0 && modern)
        r = buffer_printf(out, "\"resultType\":\"complete\"%s", length ? "," : "");
    if (r == 0)
        r = buffer_append(out, members, length);
    if (r == 0 && modern && call->cacheable)
        r = buffer_printf(out, ",\"ttlMs\":%d,\"cacheScope\":\"%s\"",
                          call->shared_cache ? LIST_TTL_MS : 0,
                          call->shared_cache ? "public" : "private");
    if (r == 0 && modern)
        r = append_meta(call, out);
    return r == 0 ? buffer_append_text(out, call->plain ? "}" : "}}") : r;
}

/* When there is no memory for the answer: this one needs little. */
static void reply_exhausted(struct mcp_call *call, struct buffer *out)
{
    buffer_free(out);
    (void)buffer_append_text(out, "{\"jsonrpc\":\"2.0\",");
    (void)append_id(call, out);
    (void)buffer_printf(out, "\"error\":{\"code\":%d,\"message\":\"huskd is out of memory\"}}",
                        RPC_INTERNAL_ERROR);
    give(call, (struct mcp_reply){.status = 200, .message = out});
}

void call_answer_members(struct mcp_call *call, const char *members, size_t length)
{
    _cleanup_buffer_ struct buffer out = {0};
    const char *refusal = call->outlet ? call->outlet->refuses(call->user, length) : NULL;
    if (refusal)
        return call_fail(call, 200, RPC_INTERNAL_ERROR, NULL, "%s", refusal);
    if (encode_result(call, members, length, &out) < 0)
        reply_exhausted(call, &out);
    else
        give(call, (struct mcp_reply){.status = 200, .message = &out});
}

void call_answer(struct mcp_call *call, json_t *result)
{
    _cleanup_free_ char *text = result ? json_dumps(result, JSON_COMPACT) : NULL;
    _cleanup_buffer_ struct buffer out = {0};
    json_decref(result);
    if (text)
        call_answer_members(call, text + 1, strlen(text) - 2);
    else
        reply_exhausted(call, &out);
}

void call_fail(struct mcp_call *call, unsigned status, enum rpc_code code, json_t *data,
               const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    rpc_mend(text);
    json_auto_t *error =
        json_pack("{s:i, s:s, s:o*}", "code", (int)code, "message", text, "data", data);
    _cleanup_free_ char *encoded = error ? json_dumps(error, JSON_COMPACT) : NULL;
    _cleanup_buffer_ struct buffer out = {0};
    int r = encoded ? buffer_append_text(&out, "{\"jsonrpc\":\"2.0\",") : -1;
    if (r == 0)
        r = append_id(call, &out);
    if (r == 0)
        r = buffer_printf(&out, "\"error\":%s}", encoded);
    if (r < 0)
        reply_exhausted(call, &out);
    else
        give(call,
             (struct mcp_reply){.status = status, .message = &out, .code = code, .fault = text});
}

void call_answer_list(struct mcp_call *call, const struct buffer *list)
{
    _cleanup_buffer_ struct buffer out = {0};
    int r = buffer_append_text(&out, "[");
    if (r == 0)
        r = buffer_append(&out, list->data, list->length);
    if (r == 0)
        r = buffer_append_text(&out, "]");
    if (r < 0)
        reply_exhausted(call, &out);
    else
        give(call, (struct mcp_reply){.status = 200, .message = &out});
}

void call_fail_unknown(struct mcp_call *call, const char *method)
{
    call_fail(call, call->era == MCP_MODERN ? 404 : 200, RPC_METHOD_NOT_FOUND, NULL,
              "There is no method %.128s here.", method);
}

void call_notify(struct mcp_call *call, const char *method, const struct buffer *params)
{
    _cleanup_buffer_ struct buffer out = {0};
    if (!call->outlet || !call->outlet->notify || call->answered)
        return;
    int r = buffer_printf(&out, "{\"jsonrpc\":\"2.0\",\"method\":\"%s\",\"params\":{", method);
    if (r == 0)
        r = buffer_append(&out, params->data, params->length);
    if (r == 0)
        r = buffer_append_text(&out, "}}");
    if (r == 0)
        call->outlet->notify(call->user, out.data, out.length);
}

void call_progress(struct mcp_call *call, const char *members, size_t length)
{
    _cleanup_free_ char *token =
        call->token ? json_dumps(call->token, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    _cleanup_buffer_ struct buffer params = {0};
    if (token &&
        buffer_printf(&params, "\"progressToken\":%s,%.*s", token, (int)length, members) == 0)
        call_notify(call, "notifications/progress", &params);
}

/* --- the end of waiting ------------------------------------------------------------------------- */

void call_cancel(struct mcp_call *call)
{
    if (call->cancel)
        call->cancel(call);
    call_free(call);
}

void call_withdraw(struct mcp_call *call)
{
    const struct mcp_outlet *outlet = call->outlet;
    void *user = call->user;
    call_cancel(call);
    if (outlet)
        outlet->reply(user, &(struct mcp_reply){.status = 200});
}

void call_abandon(struct mcp_call *call)
{
    call->outlet = NULL;
}
