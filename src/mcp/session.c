#include "mcp/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "huskd/registry.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "mcp/call.h"
#include "mcp/mcp.h"
#include "mcp/subscriptions.h"

/* The one that was not used for longest. Streams end with their connections, and what waits for an answer is in use. */
static struct mcp_session *find_oldest(const struct mcp *mcp)
{
    struct mcp_session *oldest = NULL;
    for (struct mcp_session *at = mcp->sessions; at; at = at->next) {
        if (!at->stream && at->call_count == 0 && (!oldest || at->used_ms < oldest->used_ms))
            oldest = at;
    }
    return oldest;
}

static bool expired(const struct mcp_session *session)
{
    return now_ms() - session->used_ms > (uint64_t)MCP_SESSION_SECONDS * 1000;
}

struct mcp_session *session_begin(struct mcp *mcp, const char *version)
{
    struct mcp_session *oldest = find_oldest(mcp);
    if (oldest && (mcp->session_count == MAX_MCP_SESSIONS || expired(oldest)))
        session_end(mcp, oldest);
    if (mcp->session_count == MAX_MCP_SESSIONS)
        return NULL;
    struct mcp_session *session = must_alloc(sizeof *session);
    id_format(id_new(), session->text);
    session->version = version;
    session->used_ms = now_ms();
    session->next = mcp->sessions;
    mcp->sessions = session;
    mcp->session_count++;
    return session;
}

static struct mcp_call *find_call(const struct mcp *mcp, const struct mcp_session *session)
{
    struct mcp_call *call = mcp->calls;
    while (call && call->session != session)
        call = call->next;
    return call;
}

void session_end(struct mcp *mcp, struct mcp_session *session)
{
    /* From the beginning each time: with the last call of a batch its carrier goes, too. */
    for (struct mcp_call *call; (call = find_call(mcp, session));)
        call_withdraw(call);
    subscriptions_end(mcp, &(struct subscriber){.session = session});
    if (session->stream && session->outlet->end)
        session->outlet->end(session->stream);
    struct mcp_session **link = &mcp->sessions;
    while (*link != session)
        link = &(*link)->next;
    *link = session->next;
    mcp->session_count--;
    free(session);
}

void session_end_all(struct mcp *mcp)
{
    while (mcp->sessions)
        session_end(mcp, mcp->sessions);
}

struct mcp_session *session_find(struct mcp *mcp, const char *text)
{
    struct mcp_session **link = &mcp->sessions;
    while (*link && strcmp((*link)->text, text) != 0)
        link = &(*link)->next;
    struct mcp_session *session = *link;
    if (!session)
        return NULL;
    /* To the front: those that are in use are found soon. */
    *link = session->next;
    session->next = mcp->sessions;
    mcp->sessions = session;
    session->used_ms = now_ms();
    return session;
}

/* --- its sandboxes ------------------------------------------------------------------------------ */

size_t session_sandboxes(struct mcp_session *session, const struct service *service)
{
    size_t kept = 0;
    for (size_t i = 0; i < session->sandbox_count; i++) {
        const struct sandbox *sandbox = registry_find_id(service->registry, session->sandboxes[i]);
        if (sandbox && sandbox_live(sandbox))
            session->sandboxes[kept++] = session->sandboxes[i];
    }
    session->sandbox_count = kept;
    return kept;
}

bool session_made(const struct mcp_session *session, struct id sandbox)
{
    for (size_t i = 0; i < session->sandbox_count; i++) {
        if (id_equal(session->sandboxes[i], sandbox))
            return true;
    }
    return false;
}

void session_remember(struct mcp_session *session, const struct service *service, struct id sandbox)
{
    if (session_sandboxes(session, service) < MAX_MCP_SESSION_SANDBOXES)
        session->sandboxes[session->sandbox_count++] = sandbox;
}
