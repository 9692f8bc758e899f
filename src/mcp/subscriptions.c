#include "mcp/subscriptions.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "base/quoted.h"
#include "husk/limits.h"
#include "huskd/keeper_client.h"
#include "huskd/problem.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "loop/loop.h"
#include "mcp/call.h"
#include "mcp/catalog.h"
#include "mcp/mcp.h"
#include "mcp/resources.h"
#include "mcp/session.h"

/* What a file looked like; all zero: it was not there. */
struct stamp {
    uint64_t inode, size;
    struct timespec changed;
};

struct subscription {
    struct subscription *next;
    struct mcp *mcp;
    struct mcp_session *session;
    char *uri;
    char sandbox[ID_TEXT_SIZE]; /* "": of the catalog, which never changes */
    char *path;
    struct stamp stamp;
    bool known;   /* `stamp` is */
    uint64_t tag; /* of the question to the keeper; 0: none */
    struct mcp_call
        *call; /* that asked for it and waits for the first look; NULL: it has its answer */
};

/* --- life --------------------------------------------------------------------------------------- */

static void answer_call(struct subscription *subscription)
{
    struct mcp_call *call = TAKE_POINTER(subscription->call);
    if (call)
        call_answer_members(call, "", 0);
}

static void free_subscription(struct subscription *subscription)
{
    answer_call(subscription);
    if (subscription->tag)
        keeper_client_forget(subscription->mcp->service->keeper, subscription->tag);
    free(subscription->uri);
    free(subscription->path);
    free(subscription);
}

/* `uri` NULL: all of the session. */
static void remove_matching(struct mcp *mcp, const struct mcp_session *session, const char *uri)
{
    for (struct subscription **link = &mcp->subscriptions; *link;) {
        struct subscription *at = *link;
        if (at->session != session || (uri && strcmp(at->uri, uri) != 0)) {
            link = &at->next;
            continue;
        }
        *link = at->next;
        mcp->subscription_count--;
        free_subscription(at);
    }
}

void subscriptions_end(struct mcp *mcp, const struct mcp_session *session)
{
    remove_matching(mcp, session, NULL);
}

/* --- watching ----------------------------------------------------------------------------------- */

static void tell(const struct subscription *subscription)
{
    const struct mcp_session *session = subscription->session;
    _cleanup_buffer_ struct buffer text = {0};
    int r = buffer_append_text(&text, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/"
                                      "updated\",\"params\":{\"uri\":");
    if (r == 0)
        r = quoted_append(&text, subscription->uri, strlen(subscription->uri));
    if (r == 0)
        r = buffer_append_text(&text, "}}");
    if (r == 0 && session->stream)
        session->outlet->notify(session->stream, text.data, text.length);
}

static bool same_stamp(const struct stamp *a, const struct stamp *b)
{
    return a->inode == b->inode && a->size == b->size && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

static void compare(struct subscription *subscription, const struct stamp *now)
{
    bool changed = subscription->known && !same_stamp(&subscription->stamp, now);
    subscription->stamp = *now;
    subscription->known = true;
    if (changed)
        tell(subscription);
}

static void opened(int fd, void *user)
{
    _cleanup_close_ int own = fd;
    struct subscription *subscription = user;
    struct stat status;
    struct stamp now = {0};
    subscription->tag = 0;
    if (own >= 0 && fstat(own, &status) == 0)
        now = (struct stamp){
            .inode = status.st_ino, .size = (uint64_t)status.st_size, .changed = status.st_ctim};
    compare(subscription, &now);
    answer_call(subscription);
}

static void look(struct subscription *subscription)
{
    struct service *service = subscription->mcp->service;
    struct problem problem;
    if (subscription->tag || !*subscription->sandbox)
        return;
    const struct sandbox *sandbox =
        service_find(service, subscription->session->caller, subscription->sandbox, &problem);
    if (sandbox)
        subscription->tag = keeper_client_open(service->keeper, sandbox->id, subscription->path,
                                               opened, subscription);
    else
        compare(subscription, &(struct stamp){0});
}

static void watch(struct timer *timer, void *user)
{
    struct mcp *mcp = user;
    for (struct subscription *at = mcp->subscriptions; at; at = at->next) {
        if (at->session->stream)
            look(at);
    }
    if (mcp->subscriptions)
        timer_arm(timer, MCP_WATCH_MILLISECONDS);
}

/* --- methods ------------------------------------------------------------------------------------ */

static void forget_call(struct mcp_call *call)
{
    struct subscription *subscription = call->own;
    subscription->call = NULL;
}

static void subscribe(struct mcp_call *call, const char *uri, const char *sandbox, const char *path)
{
    struct mcp *mcp = call->mcp;
    struct subscription *subscription = must_alloc(sizeof *subscription);
    *subscription = (struct subscription){.mcp = mcp,
                                          .session = call->session,
                                          .uri = must_copy(uri),
                                          .path = must_copy(path),
                                          .next = mcp->subscriptions};
    memcpy(subscription->sandbox, sandbox, strlen(sandbox) + 1);
    mcp->subscriptions = subscription;
    mcp->subscription_count++;
    if (!mcp->watch)
        mcp->watch = timer_add(mcp->service->loop, watch, mcp);
    timer_arm(mcp->watch, MCP_WATCH_MILLISECONDS);
    if (!*sandbox)
        return call_answer_members(call, "", 0);
    /* What it is now, to know when it is something else: whatever happens after the answer is told. */
    subscription->call = call;
    call->own = subscription;
    call_wait(call, forget_call);
    look(subscription);
}

/* The uri of a request that may be served; NULL: it is answered. */
static const char *checked_uri(struct mcp_call *call)
{
    const json_t *uri = json_object_get(call->params, "uri");
    const char *text = json_string_value(uri);
    if (!text || strlen(text) != json_string_length(uri)) {
        call_fail(call, 200, RPC_INVALID_PARAMS, NULL, "params.uri must be a string.");
        return NULL;
    }
    if (call->session)
        return text;
    call_fail(call, 200, RPC_INVALID_REQUEST, NULL,
              "Only a session can be told of changes: initialize one.");
    return NULL;
}

void subscriptions_add(struct mcp_call *call)
{
    char reference[RESOURCE_SANDBOX_SIZE], path[MAX_FILE_PATH_BYTES + 1];
    struct problem problem;
    const char *uri = checked_uri(call);
    if (!uri)
        return;
    remove_matching(call->mcp, call->session, uri);
    if (call->mcp->subscription_count >= MAX_MCP_SUBSCRIPTIONS)
        return call_fail(call, 200, RPC_INVALID_REQUEST, NULL,
                         "Too many resources are watched already.");
    if (mcp_catalog.has_resource(uri))
        return subscribe(call, uri, "", "");
    const char *fault = resources_split(uri, reference, path);
    if (fault)
        return resources_fail(call, uri, fault);
    const struct sandbox *sandbox =
        service_find(call->mcp->service, call->caller, reference, &problem);
    if (!sandbox)
        return resources_fail(call, uri, problem.detail);
    subscribe(call, uri, sandbox->text, path);
}

void subscriptions_remove(struct mcp_call *call)
{
    const char *uri = checked_uri(call);
    if (!uri)
        return;
    remove_matching(call->mcp, call->session, uri);
    call_answer_members(call, "", 0);
}
