/* Resources that clients of the legacy era want to hear of when they change: `resources/subscribe`. A file is looked at every two
 * seconds while its session has a stream to be told on; the keeper opens it, as for reading. (The modern era has
 * `subscriptions/listen` for this, which is not served.) */
#pragma once

struct mcp;
struct mcp_call;
struct mcp_session;
struct subscription;

/* Methods. */
void subscriptions_add(struct mcp_call *call);
void subscriptions_remove(struct mcp_call *call);

/* A session ends. */
void subscriptions_end(struct mcp *mcp, const struct mcp_session *session);
