#include "http/stream.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/failure.h"
#include "base/memory.h"
#include "http/peer.h"
#include "http/request.h"
#include "http/response.h"
#include "http/server.h"
#include "husk/limits.h"
#include "huskd/problem.h"
#include "huskd/sandbox.h"

enum {
    BLOCK_BYTES = 16 * KIB,
    ROOM_FOR_END = 4 * KIB /* the last event, if huskd has to write it */
};

struct stream {
    struct request *request;
    enum stream_kind kind;
    const struct stream_source *source;
    void *source_user;
    struct buffer waiting; /* for the client */
    size_t taken;          /* bytes of it that the client has, and the shim no credit for */
    bool whole;            /* what came so far ends with the end of an event */
    bool open;             /* the call to the shim is not answered */
    bool broken;           /* close the connection */
    bool parked;           /* the connection is suspended until there is more */
};

static const struct {
    const char *name, *type;
} kinds[] = {[STREAM_NONE] = {NULL, NULL},
             [STREAM_EVENTS] = {"sse", "text/event-stream"},
             [STREAM_LINES] = {"ndjson", "application/x-ndjson"}};

/* A q of 0 would be a strange way to mention it; other weights make no difference here. */
enum stream_kind stream_wanted(const char *accept)
{
    for (const char *at = accept; at && *at;) {
        at += strspn(at, " \t,");
        size_t length = strcspn(at, " \t,;");
        for (enum stream_kind kind = STREAM_EVENTS; kind <= STREAM_LINES; kind++) {
            if (length == strlen(kinds[kind].type) && !strncasecmp(at, kinds[kind].type, length))
                return kind;
        }
        at += strcspn(at, ",");
    }
    return STREAM_NONE;
}

const char *stream_kind_name(enum stream_kind kind)
{
    return kinds[kind].name;
}

/* --- a shim as the source ---------------------------------------------------------------------- */

static void credit_call(void *user, size_t bytes)
{
    const struct request *request = user;
    sandbox_credit_call(request->sandbox, request->tag, bytes);
}

static void forget_call(void *user)
{
    const struct request *request = user;
    sandbox_forget_call(request->sandbox, request->tag);
}

static const struct stream_source shim = {.credit = credit_call, .stop = forget_call};

struct stream *stream_new(struct request *request, enum stream_kind kind)
{
    struct stream *stream = must_alloc(sizeof *stream);
    *stream = (struct stream){.request = request,
                              .kind = kind,
                              .source = &shim,
                              .source_user = request,
                              .whole = true,
                              .open = true};
    stream->waiting = BUFFER_LIMITED(STREAM_WINDOW_BYTES + ROOM_FOR_END);
    return stream;
}

struct stream *stream_new_from(struct request *request, enum stream_kind kind,
                               const struct stream_source *source, void *user)
{
    struct stream *stream = stream_new(request, kind);
    stream->source = source;
    stream->source_user = user;
    return stream;
}

size_t stream_backlog(const struct stream *stream)
{
    return stream->waiting.length;
}

void stream_free(struct stream *stream)
{
    buffer_free(&stream->waiting);
    free(stream);
}

bool stream_is_open(const struct stream *stream)
{
    return stream->open;
}

/* --- to the client ------------------------------------------------------------------------------ */

static void wake(struct stream *stream)
{
    if (!stream->parked)
        return;
    stream->parked = false;
    server_resume(stream->request->server, stream->request->connection);
}

/* In few messages: each wakes the shim. */
static void give_credit(struct stream *stream)
{
    if (!stream->open || stream->taken == 0 ||
        (stream->waiting.length > 0 && stream->taken < STREAM_WINDOW_BYTES / 4))
        return;
    if (stream->source->credit)
        stream->source->credit(stream->source_user, stream->taken);
    stream->taken = 0;
}

/* libmicrohttpd has sent what it had, and asks for more. */
static ssize_t supply(void *user, uint64_t position _unused_, char *out, size_t room)
{
    struct stream *stream = user;
    if (stream->broken)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    size_t length = stream->waiting.length < room ? stream->waiting.length : room;
    if (length > 0) {
        memcpy(out, stream->waiting.data, length);
        buffer_consume(&stream->waiting, length);
        stream->taken += length;
        give_credit(stream);
        peer_allow(stream->request->peer, SEND_SECONDS);
        return (ssize_t)length;
    }
    if (!stream->open)
        return MHD_CONTENT_READER_END_OF_STREAM;
    stream->parked = true;
    peer_allow(stream->request->peer, 0);
    MHD_suspend_connection(stream->request->connection);
    return 0;
}

static void free_stream(void *user)
{
    stream_free(user);
}

static void answer(struct stream *stream)
{
    struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, BLOCK_BYTES,
                                                                      supply, stream, free_stream);
    husk_assert(response != NULL);
    if (stream->source->describe)
        stream->source->describe(stream->source_user, response);
    else
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
                                      kinds[stream->kind].type);
    (void)MHD_add_response_header(response, "X-Accel-Buffering",
                                  "no"); /* nginx: pass it on at once */
    request_answer(stream->request, MHD_HTTP_OK, response);
}

/* --- from the shim ------------------------------------------------------------------------------ */

void stream_add(struct stream *stream, const char *data, size_t length)
{
    if (stream->broken || length == 0)
        return;
    /* There is room, or the shim sends more than it may and would have been dropped. */
    if (buffer_append(&stream->waiting, data, length) < 0) {
        stream->broken = true;
        return wake(stream);
    }
    stream->whole = data[length - 1] == '\n';
    if (stream->request->phase == REQUEST_WAITING)
        answer(stream);
    else
        wake(stream);
}

void stream_add_event(struct stream *stream, const char *name, const char *json)
{
    _cleanup_free_ char *text = stream->kind == STREAM_EVENTS
                                    ? must_format("event: %s\ndata: %s\n\n", name, json)
                                    : must_format("%s\n", json);
    stream_add(stream, text, strlen(text));
}

void stream_keep_alive(struct stream *stream)
{
    static const char comment[] = ": keep-alive\n\n", line[] = "{\"event\":\"keepalive\"}\n";
    const char *text = stream->kind == STREAM_EVENTS ? comment : line;
    if (stream->waiting.length == 0) /* else there is something to read */
        stream_add(stream, text, strlen(text));
}

/* The shim cannot say how it ended, so huskd does. In the middle of an event nothing can be added: then the connection just
 * ends, without the mark that an answer is complete. */
static void add_end(struct stream *stream, const struct problem *problem)
{
    bool stopping = problem->kind == PROBLEM_SHUTTING_DOWN;
    json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:b}", "event", "end", "status",
                             stopping ? "interrupted" : "died", "error",
                             stopping ? "ServiceStopping" : "SandboxClosed", "error_value",
                             problem->detail, "state_lost", !stopping);
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
    json_decref(json);
    stream->broken = !stream->whole || !text || stream->kind == STREAM_BYTES;
    if (!stream->broken && stream->kind == STREAM_EVENTS)
        (void)buffer_printf(&stream->waiting, "event: end\ndata: %s\n\n", text);
    else if (!stream->broken)
        (void)buffer_printf(&stream->waiting, "%s\n", text);
    free(text);
}

void stream_end(struct stream *stream, const struct problem *problem)
{
    struct request *request = stream->request;
    stream->open = false;
    if (request->phase == REQUEST_WAITING && problem) {
        request->stream = NULL;
        stream_free(stream);
        return answer_problem(request, problem);
    }
    if (problem)
        add_end(stream, problem);
    if (request->phase == REQUEST_WAITING)
        answer(stream);
    else
        wake(stream);
}

/* --- the connection ----------------------------------------------------------------------------- */

static void stop_call(struct stream *stream)
{
    if (stream->open)
        stream->source->stop(stream->source_user);
    stream->open = false;
}

static void client_left(void *user)
{
    struct stream *stream = user;
    stop_call(stream);
    stream->broken = true;
    peer_end(stream->request->peer);
    wake(stream);
}

void stream_begin(struct stream *stream)
{
    peer_allow(stream->request->peer, 0);
    peer_watch(stream->request->peer, client_left, stream);
    if (peer_left(stream->request->peer))
        client_left(stream);
}

void stream_dismiss(struct stream *stream, const struct problem *problem)
{
    stop_call(stream);
    stream_end(stream, problem);
}

void stream_leave(struct stream *stream)
{
    stop_call(stream);
    peer_watch(stream->request->peer, NULL, NULL);
}
