/* How answers of MCP go back to an HTTP client: as JSON; or, once there is something to say before the answer, or when it is long
 * in coming, as a stream of events. An exchange belongs to its request.
 *
 *     the request waits ── answer ──▶ JSON
 *           └── notification, or MCP_KEEPALIVE_SECONDS of silence ──▶ events ── answer ──▶ the stream ends
 *
 * Or it is a stream from the beginning, for answers to requests that came otherwise (mcp_routes.c: HTTP+SSE); that one
 * ends with its client. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "mcp/call.h"

struct mcp_session;
struct request;

struct exchange;

/* Where mcp_receive() sends the answer; `user` is the exchange. */
extern const struct mcp_outlet exchange_outlet;
/* The same for a tool's bare result: errors become problems. */
extern const struct mcp_outlet exchange_plain_outlet;

struct exchange *exchange_new(struct request *request);
/* Does its client refuse large events? */
bool exchange_is_small(const struct exchange *exchange);
/* The request waits for this call. When its client goes away, so does a modern call; others go on. */
void exchange_wait(struct exchange *exchange, struct mcp_call *call);

/* A stream from the beginning, with its first event (NULL: none). `ended` is called when the client ends it, once. */
void exchange_stream(struct exchange *exchange, const char *event, const char *data,
                     void (*ended)(struct exchange *exchange));
/* We end it. */
void exchange_end(struct exchange *exchange);
/* For the owner of such a stream. */
void exchange_set_session(struct exchange *exchange, struct mcp_session *session);
struct mcp_session *exchange_session(const struct exchange *exchange);
struct request *exchange_request(const struct exchange *exchange);
