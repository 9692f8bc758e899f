#include "mcp/listening.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "base/quoted.h"
#include "husk/limits.h"
#include "huskd/problem.h"
#include "mcp/call.h"
#include "mcp/mcp.h"
#include "mcp/subscriptions.h"

/* call->own */
struct listening {
    size_t looks;     /* files that are looked at for the first time, and one for the transport */
    json_t *honoured; /* addresses that will be told of; NULL: none were wanted */
};

static void listening_free(void *own)
{
    struct listening *listening = own;
    json_decref(listening->honoured);
    free(listening);
}

/* --- what it says ------------------------------------------------------------------------------- */

static int append_meta(const struct mcp_call *call, struct buffer *params)
{
    int r = buffer_append_text(params, "\"_meta\":{");
    if (r == 0)
        r = call_append_subscription(call, params);
    return r == 0 ? buffer_append_text(params, "},") : r;
}

static void acknowledge(struct mcp_call *call)
{
    const struct listening *listening = call->own;
    _cleanup_buffer_ struct buffer params = {0};
    _cleanup_free_ char *honoured =
        listening->honoured ? json_dumps(listening->honoured, JSON_COMPACT) : NULL;
    int r = append_meta(call, &params);
    if (r == 0 && honoured)
        r = buffer_printf(&params, "\"notifications\":{\"resourceSubscriptions\":%s}", honoured);
    else if (r == 0)
        r = buffer_append_text(&params, "\"notifications\":{}");
    if (r == 0)
        call_notify(call, "notifications/subscriptions/acknowledged", &params);
}

bool listening_is_open(const struct mcp_call *call)
{
    const struct listening *listening = call->own;
    return listening->looks == 0;
}

void listening_tell(struct mcp_call *call, const char *uri)
{
    _cleanup_buffer_ struct buffer params = {0};
    int r = append_meta(call, &params);
    if (r == 0)
        r = buffer_append_text(&params, "\"uri\":");
    if (r == 0)
        r = quoted_append(&params, uri, strlen(uri));
    if (r == 0)
        call_notify(call, "notifications/resources/updated", &params);
}

/* --- life --------------------------------------------------------------------------------------- */

/* A file was looked at, or the transport is ready: when all that is done it can be promised. */
static void looked(struct mcp_call *call)
{
    struct listening *listening = call->own;
    if (--listening->looks == 0)
        acknowledge(call);
}

static void stop(struct mcp_call *call)
{
    subscriptions_forget(call);
    subscriptions_end(call->mcp, &(struct subscriber){.listener = call});
}

void listening_end_all(struct mcp *mcp)
{
    struct mcp_call *next;
    for (struct mcp_call *call = mcp->calls; call; call = next) {
        next = call->next;
        if (!call->lasts)
            continue;
        stop(call);
        call_answer_members(call, "", 0);
    }
}

static bool has_room(const struct mcp *mcp)
{
    size_t count = 0;
    for (const struct mcp_call *call = mcp->calls; call; call = call->next)
        count += call->lasts;
    return count < MAX_MCP_LISTENERS;
}

/* --- the method --------------------------------------------------------------------------------- */

/* What is wanted; NULL: that is answered. */
static const json_t *checked_wish(struct mcp_call *call)
{
    static const char *const flags[] = {"toolsListChanged", "promptsListChanged",
                                        "resourcesListChanged"};
    const json_t *wish = json_object_get(call->params, "notifications");
    const json_t *uris = json_object_get(wish, "resourceSubscriptions");
    bool good = json_is_object(wish) && (!uris || json_is_array(uris)) &&
                json_array_size(uris) <= MAX_MCP_OWN_SUBSCRIPTIONS;
    for (size_t i = 0; good && i < ARRAY_LENGTH(flags); i++) {
        const json_t *flag = json_object_get(wish, flags[i]);
        good = !flag || json_is_boolean(flag);
    }
    for (size_t i = 0; good && i < json_array_size(uris); i++) {
        const json_t *uri = json_array_get(uris, i);
        good = json_is_string(uri) && strlen(json_string_value(uri)) == json_string_length(uri);
    }
    if (good)
        return wish;
    call_fail(call, 200, RPC_INVALID_PARAMS, NULL,
              "params.notifications must be an object of flags, and its resourceSubscriptions a "
              "list of at most %d addresses.",
              MAX_MCP_OWN_SUBSCRIPTIONS);
    return NULL;
}

/* What is no resource is left out of what is promised. False: there is no room. */
static bool watch_all(struct mcp_call *call, const json_t *uris)
{
    struct listening *listening = call->own;
    struct subscriber who = {.listener = call, .seen = looked};
    for (size_t i = 0; i < json_array_size(uris); i++) {
        struct problem problem;
        const char *uri = json_string_value(json_array_get(uris, i));
        listening->looks++;
        int r = subscriptions_watch(call, &who, uri, &problem);
        if (r == -ENOSPC)
            return false;
        if (r == 0)
            (void)json_array_append_new(listening->honoured, json_string(uri));
        else
            listening->looks--;
    }
    return true;
}

void listening_begin(struct mcp_call *call)
{
    const json_t *wish = checked_wish(call);
    if (!wish)
        return;
    const json_t *uris = json_object_get(wish, "resourceSubscriptions");
    bool room = has_room(call->mcp);
    struct listening *listening = must_alloc(sizeof *listening);
    *listening = (struct listening){.looks = 1, .honoured = uris ? json_array() : NULL};
    call->own = listening;
    call->own_free = listening_free;
    call->lasts = true;
    call->carried = looked;
    call_wait(call, stop);
    room = room && watch_all(call, uris);
    if (room)
        return call_drop_params(call);
    stop(call);
    call->lasts = false;
    call_fail(call, 200, RPC_INTERNAL_ERROR, NULL,
              "Too many listen, or too much is listened to, already. Try again later.");
}
