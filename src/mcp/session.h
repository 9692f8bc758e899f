/* What is remembered of a client of the legacy era, from its handshake until it says good-bye, its stream ends, or it was
 * silent for long: the version it speaks, and which sandboxes are its own, so that it need not name the only one it has.
 * The sandboxes do not end with it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "husk/limits.h"

struct mcp;
struct mcp_outlet;
struct mcp_session;
struct service;

struct mcp_session {
    struct mcp_session *next;
    char text[ID_TEXT_SIZE];
    const char *version; /* static */
    uint64_t used_ms;
    struct id sandboxes[MAX_MCP_SESSION_SANDBOXES];
    size_t sandbox_count;
    size_t call_count; /* of its calls that wait for something */
    /* A stream on which it can be told things; NULL: none. */
    void *stream;
    const struct mcp_outlet *outlet; /* for `stream` */
    bool bound;                      /* it ends with the stream (HTTP+SSE) */
};

/* NULL: there are too many, all of them in use. */
struct mcp_session *session_begin(struct mcp *mcp, const char *version);
/* Cancels what it waits for, and ends its stream. */
void session_end(struct mcp *mcp, struct mcp_session *session);
void session_end_all(struct mcp *mcp);
/* NULL: there is none of this id. It counts as used. */
struct mcp_session *session_find(struct mcp *mcp, const char *text);

/* It made this sandbox. The oldest that is no more makes room; if all live, it is not remembered. */
void session_remember(struct mcp_session *session, const struct service *service,
                      struct id sandbox);
bool session_made(const struct mcp_session *session, struct id sandbox);
/* Forget those that are no more. How many are left; `ids` may then be read. */
size_t session_sandboxes(struct mcp_session *session, const struct service *service);
