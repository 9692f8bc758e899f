#include "http/mcp_exchange.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/memory.h"
#include "base/text.h"
#include "http/request.h"
#include "http/response.h"
#include "http/server.h"
#include "http/stream.h"
#include "husk/limits.h"
#include "huskd/problem.h"
#include "huskd/service.h"
#include "loop/loop.h"

struct exchange {
    struct request *request;
    struct mcp_call *call; /* that is waited for; NULL: none (any more) */
    bool takes_events;     /* the client does */
    bool small;            /* but no large ones */
    bool open;             /* events are sent; request->stream is there */
    bool last;             /* no more events will come */
    struct buffer pending; /* events that are not in the stream yet … */
    size_t passed;         /* … but for so many bytes of them, fewer than half */
    struct timer *silence;
    struct mcp_session *session;
    void (*ended)(struct exchange *exchange);
};

/* --- life --------------------------------------------------------------------------------------- */

static void exchange_free(void *own)
{
    struct exchange *exchange = own;
    timer_remove(exchange->silence);
    buffer_free(&exchange->pending);
    free(exchange);
}

/* The official Python SDK gives up a connection on which an event of 1 MiB comes, unless its user knows to tell it otherwise. The
 * library that it uses is all it says about itself before it is too late. */
static bool refuses_large_events(const struct request *request)
{
    const char *agent = request_header(request, MHD_HTTP_HEADER_USER_AGENT);
    return agent && starts_with(agent, "python-httpx");
}

struct exchange *exchange_new(struct request *request)
{
    struct exchange *exchange = must_alloc(sizeof *exchange);
    const char *accept = request_header(request, MHD_HTTP_HEADER_ACCEPT);
    exchange->request = request;
    exchange->takes_events = accept && strstr(accept, "text/event-stream");
    exchange->small = refuses_large_events(request);
    request->own = exchange;
    request->own_free = exchange_free;
    return exchange;
}

void exchange_set_session(struct exchange *exchange, struct mcp_session *session)
{
    exchange->session = session;
}

struct mcp_session *exchange_session(const struct exchange *exchange)
{
    return exchange->session;
}

bool exchange_is_small(const struct exchange *exchange)
{
    return exchange->small;
}

struct request *exchange_request(const struct exchange *exchange)
{
    return exchange->request;
}

/* The client is gone. In the modern era, and for a bare tool, that is how a call is cancelled; in the legacy era it is not. */
static void let_go(struct exchange *exchange)
{
    struct mcp_call *call = TAKE_POINTER(exchange->call);
    exchange->last = true;
    if (exchange->ended) {
        void (*ended)(struct exchange *) = TAKE_POINTER(exchange->ended);
        ended(exchange);
    }
    if (call && (call->era == MCP_MODERN || call->plain))
        call_cancel(call);
    else if (call)
        call_abandon(call);
}

static void cancel_request(struct request *request)
{
    let_go(request->own);
}

/* --- events ------------------------------------------------------------------------------------- */

/* What a reader has who is never done, because there is always more, must not stay here. */
static void drop_passed(struct exchange *exchange)
{
    struct buffer *pending = &exchange->pending;
    if (exchange->passed == pending->length)
        buffer_free(pending);
    else if (exchange->passed >= pending->length / 2)
        buffer_consume(pending, exchange->passed);
    else
        return;
    exchange->passed = 0;
    exchange->request->answer_bytes = pending->length > STREAM_WINDOW_BYTES ? pending->length : 0;
}

/* As much as the stream may hold. */
static void pass_on(struct exchange *exchange)
{
    struct stream *stream = exchange->request->stream;
    size_t backlog = stream_backlog(stream);
    size_t room = backlog < STREAM_WINDOW_BYTES ? STREAM_WINDOW_BYTES - backlog : 0;
    size_t left = exchange->pending.length - exchange->passed;
    size_t length = left < room ? left : room;
    if (length > 0) {
        exchange->passed += length;
        stream_add(stream, exchange->pending.data + exchange->passed - length, length);
    }
    drop_passed(exchange);
    if (exchange->pending.length > 0)
        return;
    if (exchange->last && stream_is_open(stream))
        stream_end(stream, NULL);
}

static void stream_taken(void *user, size_t bytes _unused_)
{
    pass_on(user);
}

static void stream_stopped(void *user)
{
    let_go(user);
}

static void describe(void *user _unused_, struct MHD_Response *response)
{
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
}

static const struct stream_source source = {
    .credit = stream_taken, .stop = stream_stopped, .describe = describe};

static void open_stream(struct exchange *exchange)
{
    if (exchange->open)
        return;
    exchange->open = true;
    exchange->request->stream = stream_new_from(exchange->request, STREAM_BYTES, &source, exchange);
}

static void add_event(struct exchange *exchange, const char *name, const char *data, size_t length)
{
    struct buffer *pending = &exchange->pending;
    size_t before = pending->length;
    int r = buffer_printf(pending, "event: %s\ndata: ", name);
    if (r == 0)
        r = buffer_append(pending, data, length);
    if (r == 0)
        r = buffer_append_text(pending, "\n\n");
    if (r < 0)
        pending->length = before; /* no memory: the client does without it */
    exchange->request->answer_bytes = pending->length > STREAM_WINDOW_BYTES ? pending->length : 0;
    open_stream(exchange);
    pass_on(exchange);
}

static void add_comment(struct exchange *exchange)
{
    (void)buffer_append_text(&exchange->pending, ": keep-alive\n\n");
    open_stream(exchange);
    pass_on(exchange);
}

/* Proxies and clients give up connections that are silent for long. */
static void keep_alive(struct timer *timer, void *user)
{
    struct exchange *exchange = user;
    if (exchange->last)
        return;
    if (exchange->pending.length == 0)
        add_comment(exchange);
    timer_arm(timer, MCP_KEEPALIVE_SECONDS * 1000);
}

static void watch_silence(struct exchange *exchange)
{
    exchange->silence = timer_add(exchange->request->service->loop, keep_alive, exchange);
    timer_arm(exchange->silence, MCP_KEEPALIVE_SECONDS * 1000);
}

/* --- JSON --------------------------------------------------------------------------------------- */

static void answer_json_message(struct request *request, const struct mcp_reply *reply)
{
    size_t length = reply->message->length;
    char *text = buffer_take(reply->message);
    struct MHD_Response *response =
        text ? MHD_create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE) : NULL;
    if (!response) {
        struct problem problem;
        free(text);
        problem_set(&problem, PROBLEM_OUT_OF_MEMORY, "huskd is out of memory. Try again later.");
        return answer_problem(request, &problem);
    }
    request->answer_bytes = length;
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    if (reply->session_id)
        (void)MHD_add_response_header(response, "Mcp-Session-Id", reply->session_id);
    if (reply->session_id && request->shared)
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_EXPOSE_HEADERS,
                                      "Mcp-Session-Id");
    request_answer(request, reply->status, response);
}

/* A call that was withdrawn has no answer, but the request has: events, of which there are none. */
static void answer_nothing(struct request *request)
{
    static char nothing[] = "";
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
    request_answer(request, MHD_HTTP_OK, response);
}

/* --- as an outlet ------------------------------------------------------------------------------- */

static void reply(void *user, const struct mcp_reply *reply)
{
    struct exchange *exchange = user;
    bool shared = exchange->ended != NULL; /* other answers will follow */
    exchange->call = NULL;
    if (!exchange->open)
        exchange->silence = timer_remove(exchange->silence);
    if (!exchange->open && reply->message)
        return answer_json_message(exchange->request, reply);
    if (!exchange->open)
        return answer_nothing(exchange->request);
    if (exchange->last)
        return;
    exchange->last = !shared;
    if (reply->message)
        add_event(exchange, "message", reply->message->data, reply->message->length);
    else
        pass_on(exchange);
}

/* An answer stays in memory until its client has read it; and many may have been asked for before the first was there. */
static const char *refuses(void *user, size_t length)
{
    const struct exchange *exchange = user;
    if (exchange->small && exchange->open && length > MAX_MCP_SMALL_EVENT_BYTES)
        return "This answer has more than 1 MiB, which this client does not take as an event. Ask "
               "for less: read_file reads parts of a file. Or ask at /mcp without a progress "
               "token: "
               "short calls are answered with plain JSON there, of any length.";
    if (length > STREAM_WINDOW_BYTES &&
        server_unread(exchange->request->server) + length > MAX_UNREAD_ANSWERS_BYTES)
        return "This answer is large, and too many large ones wait for clients to read them. Try "
               "again in a moment.";
    return NULL;
}

/* May be lost: whoever does not read has no use for it. */
static void notify(void *user, const char *text, size_t length)
{
    struct exchange *exchange = user;
    if (exchange->takes_events && !exchange->last && exchange->request->phase >= REQUEST_WAITING &&
        exchange->pending.length < STREAM_WINDOW_BYTES)
        add_event(exchange, "message", text, length);
}

void exchange_end(struct exchange *exchange)
{
    exchange->ended = NULL;
    exchange->last = true;
    pass_on(exchange);
}

static void end(void *user)
{
    exchange_end(user);
}

const struct mcp_outlet exchange_outlet = {
    .reply = reply, .refuses = refuses, .notify = notify, .end = end};

static void reply_plainly(void *user, const struct mcp_reply *reply)
{
    static const struct {
        enum rpc_code code;
        enum problem_kind kind;
    } kinds[] = {{RPC_PARSE_ERROR, PROBLEM_MALFORMED_JSON},
                 {RPC_INVALID_PARAMS, PROBLEM_ROUTE_NOT_FOUND},
                 {RPC_INVALID_REQUEST, PROBLEM_INVALID_FIELD},
                 {RPC_REFUSED, PROBLEM_QUEUE_FULL}};
    struct exchange *exchange = user;
    struct problem problem;
    exchange->call = NULL;
    if (!reply->fault)
        return answer_json_message(exchange->request, reply);
    problem_set(&problem, PROBLEM_OUT_OF_MEMORY, "%s", reply->fault);
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        if (kinds[i].code == reply->code)
            problem.kind = kinds[i].kind;
    }
    answer_problem(exchange->request, &problem);
}

const struct mcp_outlet exchange_plain_outlet = {.reply = reply_plainly, .refuses = refuses};

/* --- for the routes ----------------------------------------------------------------------------- */

void exchange_wait(struct exchange *exchange, struct mcp_call *call)
{
    exchange->call = call;
    request_wait(exchange->request, cancel_request);
    if (call->lasts)
        exchange->takes_events = exchange->request->lingers = true; /* it asked for a stream */
    if (exchange->takes_events && !call->plain)
        watch_silence(exchange);
    if (call->carried)
        call->carried(call);
}

void exchange_stream(struct exchange *exchange, const char *event, const char *data,
                     void (*ended)(struct exchange *exchange))
{
    exchange->takes_events = true;
    exchange->ended = ended;
    exchange->request->lingers = true;
    request_wait(exchange->request, cancel_request);
    watch_silence(exchange);
    if (event)
        add_event(exchange, event, data, strlen(data));
    else
        add_comment(exchange);
}
