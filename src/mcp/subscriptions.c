#include "mcp/subscriptions.h"

#include <errno.h>
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
#include "huskd/registry.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "loop/loop.h"
#include "mcp/call.h"
#include "mcp/catalog.h"
#include "mcp/listening.h"
#include "mcp/mcp.h"
#include "mcp/resources.h"
#include "mcp/session.h"
#include "mcp/view.h"

/* What a file looked like; all zero: it was not there. */
struct stamp {
    uint64_t inode, size;
    struct timespec changed;
};

struct subscription {
    struct subscription *next;
    struct mcp *mcp;
    struct subscriber who;
    char *uri;
    bool fixed; /* of the catalog, which never changes */
    struct id sandbox;
    char *path;
    struct stamp stamp;
    bool known;            /* `stamp` is */
    uint64_t tag;          /* of the question to the keeper; 0: none */
    struct mcp_call *call; /* that waits for the first look; NULL: it has had it */
};

/* --- life --------------------------------------------------------------------------------------- */

static void tell_seen(struct subscription *subscription)
{
    struct mcp_call *call = TAKE_POINTER(subscription->call);
    if (call)
        subscription->who.seen(call);
}

static void free_subscription(struct subscription *subscription)
{
    if (subscription->tag)
        keeper_client_forget(subscription->mcp->service->keeper, subscription->tag);
    tell_seen(subscription);
    free(subscription->uri);
    free(subscription->path);
    free(subscription);
}

static bool same_subscriber(const struct subscriber *a, const struct subscriber *b)
{
    return a->session == b->session && a->listener == b->listener;
}

/* `uri` NULL: all of it. */
static void remove_matching(struct mcp *mcp, const struct subscriber *who, const char *uri)
{
    for (struct subscription **link = &mcp->subscriptions; *link;) {
        struct subscription *at = *link;
        if (!same_subscriber(&at->who, who) || (uri && strcmp(at->uri, uri) != 0)) {
            link = &at->next;
            continue;
        }
        *link = at->next;
        mcp->subscription_count--;
        free_subscription(at);
    }
}

void subscriptions_end(struct mcp *mcp, const struct subscriber *who)
{
    remove_matching(mcp, who, NULL);
}

void subscriptions_forget(struct mcp_call *call)
{
    for (struct subscription *at = call->mcp->subscriptions; at; at = at->next) {
        if (at->call == call)
            at->call = NULL;
    }
}

/* --- watching ----------------------------------------------------------------------------------- */

static void tell_session(const struct mcp_session *session, const char *uri)
{
    _cleanup_buffer_ struct buffer text = {0};
    int r = buffer_append_text(&text, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/resources/"
                                      "updated\",\"params\":{\"uri\":");
    if (r == 0)
        r = quoted_append(&text, uri, strlen(uri));
    if (r == 0)
        r = buffer_append_text(&text, "}}");
    if (r == 0 && session->stream)
        session->outlet->notify(session->stream, text.data, text.length);
}

static void tell(const struct subscription *subscription)
{
    if (subscription->who.session)
        tell_session(subscription->who.session, subscription->uri);
    else
        listening_tell(subscription->who.listener, subscription->uri);
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
    tell_seen(subscription);
}

static void look(struct subscription *subscription)
{
    const struct service *service = subscription->mcp->service;
    if (subscription->tag || subscription->fixed)
        return;
    const struct sandbox *sandbox = registry_find_id(service->registry, subscription->sandbox);
    if (sandbox && sandbox_live(sandbox))
        subscription->tag = keeper_client_open(service->keeper, sandbox->id, subscription->path,
                                               opened, subscription);
    else
        compare(subscription, &(struct stamp){0});
}

static void watch(struct timer *timer, void *user)
{
    struct mcp *mcp = user;
    for (struct subscription *at = mcp->subscriptions; at; at = at->next) {
        if (at->who.listener ? listening_is_open(at->who.listener)
                             : at->who.session->stream != NULL)
            look(at);
    }
    if (mcp->subscriptions)
        timer_arm(timer, MCP_WATCH_MILLISECONDS);
}

static bool has_room(const struct mcp *mcp, const struct subscriber *who)
{
    size_t own = 0;
    for (const struct subscription *at = mcp->subscriptions; at; at = at->next)
        own += same_subscriber(&at->who, who);
    return own < MAX_MCP_OWN_SUBSCRIPTIONS && mcp->subscription_count < MAX_MCP_SUBSCRIPTIONS;
}

/* What a file is now tells when it is something else. */
static void add(struct mcp_call *call, const struct subscription *as)
{
    struct mcp *mcp = call->mcp;
    struct subscription *subscription = must_alloc(sizeof *subscription);
    *subscription = *as;
    subscription->next = mcp->subscriptions;
    mcp->subscriptions = subscription;
    mcp->subscription_count++;
    if (!mcp->watch)
        mcp->watch = timer_add(mcp->service->loop, watch, mcp);
    timer_arm(mcp->watch, MCP_WATCH_MILLISECONDS);
    if (subscription->fixed)
        tell_seen(subscription);
    else
        look(subscription);
}

int subscriptions_watch(struct mcp_call *call, const struct subscriber *who, const char *uri,
                        struct problem *problem)
{
    char reference[RESOURCE_SANDBOX_SIZE], path[MAX_FILE_PATH_BYTES + 1] = "";
    bool fixed = mcp_catalog.has_resource(uri);
    remove_matching(call->mcp, who, uri);
    if (!has_room(call->mcp, who)) {
        problem_set(problem, PROBLEM_QUEUE_FULL, "Too many resources are watched already.");
        return -ENOSPC;
    }
    const char *fault = fixed ? NULL : resources_split(uri, reference, path);
    if (fault) {
        problem_set(problem, PROBLEM_FILE_NOT_FOUND, "%s", fault);
        return -ENOENT;
    }
    const struct sandbox *sandbox = fixed ? NULL : view_find(call, reference, problem);
    if (!fixed && !sandbox)
        return -ENOENT;
    struct subscription as = {.mcp = call->mcp, .who = *who, .fixed = fixed, .call = call};
    as.uri = must_copy(uri);
    as.path = must_copy(path);
    if (sandbox)
        as.sandbox = sandbox->id;
    add(call, &as);
    return 0;
}

/* --- methods ------------------------------------------------------------------------------------ */

static void answer_empty(struct mcp_call *call)
{
    call_answer_members(call, "", 0);
}

static struct subscriber subscriber_of(const struct mcp_call *call)
{
    return (struct subscriber){.session = call->session, .seen = answer_empty};
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
    struct problem problem;
    const char *uri = checked_uri(call);
    if (!uri)
        return;
    struct subscriber who = subscriber_of(call);
    call_wait(call, subscriptions_forget);
    int r = subscriptions_watch(call, &who, uri, &problem);
    if (r == -ENOSPC)
        call_fail(call, 200, RPC_INVALID_REQUEST, NULL, "%s", problem.detail);
    else if (r < 0)
        resources_fail(call, uri, problem.detail);
}

void subscriptions_remove(struct mcp_call *call)
{
    const char *uri = checked_uri(call);
    if (!uri)
        return;
    struct subscriber who = subscriber_of(call);
    remove_matching(call->mcp, &who, uri);
    call_answer_members(call, "", 0);
}
