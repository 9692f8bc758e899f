/* Which of the two protocols that are called MCP a message speaks, and whether it does so properly.
 *
 * Legacy (2025-11-25 and older): a handshake, perhaps a session, then requests. Modern (2026-07-28): every request carries what is to
 * be known about it, in `_meta` and again in HTTP headers, and nothing is remembered. One endpoint serves both: the
 * claim `io.modelcontextprotocol/protocolVersion` in `_meta` is what tells them apart. Pure. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "mcp/rpc.h"

enum mcp_era {
    MCP_LEGACY,
    MCP_MODERN
};

#define MCP_MODERN_VERSION "2026-07-28"
#define MCP_LATEST_LEGACY  "2025-11-25"

/* As they were sent; NULL: absent. */
struct mcp_headers {
    bool
        handshake; /* the transport is of the legacy era (HTTP+SSE), and so is whatever comes by it */
    const char *version;
    const char *method;
    const char *name;
    const char *session;
};

/* Why a message is not answered as asked. */
struct mcp_refusal {
    unsigned status; /* of HTTP */
    enum rpc_code code;
    char text[240];
    const char *requested; /* RPC_UNSUPPORTED_VERSION: the version, borrowed */
};

/* The era of a request or notification. False: refused. */
bool era_judge(const struct rpc_message *message, const struct mcp_headers *headers,
               enum mcp_era *ret, struct mcp_refusal *refusal);
/* Does it claim a version in its _meta? */
bool era_claims(const struct rpc_message *message);

/* What a legacy client gets that asks for this version: the same if we know it, or our latest. Static. */
const char *era_negotiate(const char *version);
/* The legacy version that this is, static; NULL: we do not know it. */
const char *era_legacy_version(const char *version);
