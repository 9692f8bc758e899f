/* MCP over HTTP: one endpoint of the revisions since 2025-03-26, two of the one before, and tools for scripts. The protocol itself
 * is in ../mcp/. */
#include <stdio.h>
#include <string.h>

#include "base/attributes.h"
#include "http/mcp_exchange.h"
#include "http/request.h"
#include "http/response.h"
#include "http/routes.h"
#include "http/server.h"
#include "huskd/problem.h"
#include "huskd/uri.h"
#include "mcp/mcp.h"
#include "mcp/session.h"

/* --- answers ------------------------------------------------------------------------------------ */

static void answer_error(struct request *request, unsigned status, enum rpc_code code,
                         const char *text)
{
    answer_json(request, status,
                json_pack("{s:s, s:{s:i, s:s}}", "jsonrpc", "2.0", "error", "code", (int)code,
                          "message", text));
}

/* To those without a session: the modern era has no such stream. */
static void answer_method_not_allowed(struct request *request)
{
    struct problem problem;
    (void)snprintf(request->allow, sizeof request->allow, "POST, DELETE");
    problem_set(&problem, PROBLEM_METHOD_NOT_ALLOWED,
                "GET is for clients that have a session and take text/event-stream.");
    answer_problem(request, &problem);
}

static void answer_accepted(struct request *request)
{
    static char nothing[] = "";
    request_answer(request, MHD_HTTP_ACCEPTED,
                   MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT));
}

static bool is_json(struct request *request)
{
    if (!request->json)
        answer_error(request, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, RPC_REFUSED,
                     "Content-Type must be application/json.");
    return request->json;
}

/* An answer stays in memory until its client has read it. */
static bool may_begin(struct request *request)
{
    struct problem problem;
    if (server_unread(request->server) < MAX_UNREAD_ANSWERS_BYTES)
        return true;
    problem_set(&problem, PROBLEM_OUT_OF_MEMORY,
                "Too many large answers wait for clients to read them. Try again in a moment.");
    answer_problem(request, &problem);
    return false;
}

static struct mcp_input input_of(const struct request *request, struct exchange *exchange)
{
    return (struct mcp_input){
        .text = request->body.data,
        .length = request->body.length,
        .headers = {.version = request_header(request, "MCP-Protocol-Version"),
                    .method = request_header(request, "Mcp-Method"),
                    .name = request_header(request, "Mcp-Name"),
                    .session = request_header(request, "Mcp-Session-Id")},
        .small_events = exchange_is_small(exchange),
        .outlet = &exchange_outlet,
        .user = exchange,
    };
}

static void finish(struct exchange *exchange, enum mcp_outcome outcome, struct mcp_call *call)
{
    if (outcome == MCP_WAITS)
        exchange_wait(exchange, call);
    else if (outcome == MCP_SILENT)
        answer_accepted(exchange_request(exchange));
}

/* --- Streamable HTTP ---------------------------------------------------------------------------- */

void route_mcp(struct request *request)
{
    if (!is_json(request) || !may_begin(request))
        return;
    struct mcp_call *call = NULL;
    struct exchange *exchange = exchange_new(request);
    struct mcp_input input = input_of(request, exchange);
    enum mcp_outcome outcome = mcp_receive(server_mcp(request->server), &input, &call);
    finish(exchange, outcome, call);
}

void route_mcp_end(struct request *request)
{
    const char *session = request_header(request, "Mcp-Session-Id");
    if (!session)
        answer_error(request, MHD_HTTP_BAD_REQUEST, RPC_REFUSED,
                     "The header Mcp-Session-Id is missing.");
    else if (mcp_end_session(server_mcp(request->server), session))
        answer_json(request, MHD_HTTP_OK, json_object());
    else
        answer_error(request, MHD_HTTP_NOT_FOUND, RPC_SESSION_NOT_FOUND,
                     "There is no such session (any more).");
}

/* For scripts, whatever they say the type of their JSON is. */
void route_mcp_tool(struct request *request)
{
    if (!may_begin(request))
        return;
    struct mcp_call *call = NULL;
    struct exchange *exchange = exchange_new(request);
    struct mcp_input input = input_of(request, exchange);
    input.outlet = &exchange_plain_outlet;
    enum mcp_outcome outcome =
        mcp_receive_tool(server_mcp(request->server), request->parameter, &input, &call);
    finish(exchange, outcome, call);
}

/* --- streams of sessions ---------------------------------------------------------------------- */

static void stream_ended(struct exchange *exchange)
{
    struct mcp_session *session = exchange_session(exchange);
    session->stream = NULL;
    if (session->bound)
        session_end(server_mcp(exchange_request(exchange)->server), session);
}

/* A newer stream takes the place of an older one, whose client may be long gone. */
static void begin_stream(struct request *request, struct mcp_session *session, const char *event,
                         const char *data)
{
    struct exchange *exchange = exchange_new(request);
    if (session->stream)
        exchange_end(session->stream);
    session->stream = exchange;
    session->outlet = &exchange_outlet;
    exchange_set_session(exchange, session);
    exchange_stream(exchange, event, data, stream_ended);
}

/* For what is not the answer to a request: that a resource has changed. */
void route_mcp_stream(struct request *request)
{
    const char *accept = request_header(request, MHD_HTTP_HEADER_ACCEPT);
    const char *id = request_header(request, "Mcp-Session-Id");
    struct mcp_session *session = id ? session_find(server_mcp(request->server), id) : NULL;
    if (!id || !accept || !strstr(accept, "text/event-stream"))
        answer_method_not_allowed(request);
    else if (!session || session->bound)
        answer_error(request, MHD_HTTP_NOT_FOUND, RPC_SESSION_NOT_FOUND,
                     "There is no such session (any more). Initialize a new one.");
    else
        begin_stream(request, session, NULL, NULL);
}

/* 2024-11-05: everything that the client sends comes to /messages, and everything it gets is in this stream. */
void route_sse(struct request *request)
{
    struct mcp_session *session = session_begin(server_mcp(request->server), MCP_LATEST_LEGACY);
    char endpoint[64];
    if (!session) {
        struct problem problem;
        problem_set(&problem, PROBLEM_AT_CAPACITY, "There are too many sessions. Try again later.");
        return answer_problem(request, &problem);
    }
    session->bound = true;
    (void)snprintf(endpoint, sizeof endpoint, "/messages?sessionId=%s", session->text);
    begin_stream(request, session, "endpoint", endpoint);
}

void route_messages(struct request *request)
{
    char id[ID_TEXT_SIZE];
    struct mcp *mcp = server_mcp(request->server);
    if (!is_json(request) || !may_begin(request))
        return;
    struct mcp_session *session =
        uri_query(request->query, "sessionId", id, sizeof id) > 0 ? session_find(mcp, id) : NULL;
    if (!session || !session->bound)
        return answer_error(request, MHD_HTTP_NOT_FOUND, RPC_SESSION_NOT_FOUND,
                            "There is no such session (any more): its stream has ended.");
    struct mcp_call *call;
    struct mcp_input input = {.text = request->body.data,
                              .length = request->body.length,
                              .headers = {.handshake = true},
                              .session = session,
                              .small_events = exchange_is_small(session->stream),
                              .outlet = &exchange_outlet,
                              .user = session->stream};
    (void)mcp_receive(mcp, &input, &call);
    answer_accepted(request);
}
