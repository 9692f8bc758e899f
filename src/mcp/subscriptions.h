/* Resources that clients want to hear of when they change. A file is looked at every two seconds while there is a stream to tell it
 * on; the keeper opens it, as for reading. In the legacy era a session subscribes (`resources/subscribe`), in the modern one a call
 * listens (listening.h). */
#pragma once

struct mcp;
struct mcp_call;
struct mcp_session;
struct problem;
struct subscription;

/* Who is told: a session, or a call that listens; the other is NULL. */
struct subscriber {
    struct mcp_session *session;
    struct mcp_call *listener;
    /* What it is now is known: whatever happens to it from here on is told. */
    void (*seen)(struct mcp_call *call);
};

/* Methods. */
void subscriptions_add(struct mcp_call *call);
void subscriptions_remove(struct mcp_call *call);

/* Tell of changes of `uri`; `call` waits for who->seen, which may be called from inside. 0, -ENOENT (there is no such resource)
 * or -ENOSPC with a sentence in *problem. */
int subscriptions_watch(struct mcp_call *call, const struct subscriber *who, const char *uri,
                        struct problem *problem);
/* The call waits no more. */
void subscriptions_forget(struct mcp_call *call);
/* A session ends, or a call does not listen any more. */
void subscriptions_end(struct mcp *mcp, const struct subscriber *who);
