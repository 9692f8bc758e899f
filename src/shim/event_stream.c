#include "shim/event_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/quoted.h"
#include "husk/limits.h"
#include "shim/bundle.h"

struct event_stream {
    struct recorder recorder;
    struct event_streams *streams;
    struct event_stream *next;
    struct ticket ticket;
    enum stream_format format;
    struct buffer pending;
    size_t sent;   /* bytes of it that are in flight already */
    size_t credit; /* how many more may be */
    uint64_t sent_at;
    struct timer *stall_timer; /* armed while full */
    bool
        stalled; /* the client takes nothing, so what does not fit is dropped, until it has caught up */
    bool hurried;   /* the same for good */
    bool discarded; /* nobody reads it */
    bool cut;
    uint64_t dropped_events, dropped_bytes; /* not told yet */
    bool finished;
    struct shim_result_head head;
};

struct event_streams {
    struct loop *loop;
    struct connection *connection;
    void (*changed)(void *user);
    void *user;
    struct event_stream *first;
    size_t count;
    struct timer *silence_timer; /* armed while there are streams */
};

static struct event_stream *own(struct recorder *recorder)
{
    return (struct event_stream *)(void *)((char *)recorder -
                                           offsetof(struct event_stream, recorder));
}

int stream_format_read(const json_t *name, bool *ret_wanted, enum stream_format *ret_format)
{
    const char *format = json_string_value(name);
    *ret_wanted = format != NULL;
    if (!format)
        return 0;
    *ret_format = strcmp(format, "ndjson") == 0 ? STREAM_NDJSON : STREAM_SSE;
    return *ret_format == STREAM_NDJSON || strcmp(format, "sse") == 0 ? 0 : -EINVAL;
}

/* --- bytes ---------------------------------------------------------------------------------- */

static size_t waiting(const struct event_stream *stream)
{
    return stream->pending.length - stream->sent;
}

/* Only of a stream that is finished: its execution has let go of it. */
static void free_stream(struct event_stream *stream)
{
    struct event_stream **link = &stream->streams->first;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    stream->streams->count--;
    timer_remove(stream->stall_timer);
    buffer_free(&stream->pending);
    free(stream);
}

static void send_waiting(struct event_stream *stream)
{
    while (waiting(stream) > 0 && stream->credit > 0) {
        size_t length = waiting(stream) < STREAM_CHUNK_BYTES ? waiting(stream) : STREAM_CHUNK_BYTES;
        if (length > stream->credit)
            length = stream->credit;
        connection_answer(stream->streams->connection, stream->ticket, SHIM_STREAM,
                          stream->pending.data + stream->sent, length);
        stream->sent += length;
        stream->credit -= length;
        stream->sent_at = now_ms();
    }
    if (waiting(stream) == 0) {
        /* One large event must not cost its memory for as long as the stream lives. */
        buffer_free(&stream->pending);
        stream->sent = 0;
    } else if (stream->sent > stream->pending.length / 2) {
        buffer_consume(&stream->pending, stream->sent);
        stream->sent = 0;
    }
}

static bool may_drop(const struct event_stream *stream)
{
    return stream->stalled || stream->hurried;
}

bool event_stream_full(const struct event_stream *stream)
{
    return !may_drop(stream) && !stream->discarded && waiting(stream) > STREAM_PENDING_BYTES;
}

/* After every change of what waits. May free a finished stream. */
static void settle(struct event_stream *stream)
{
    struct event_streams *streams = stream->streams;
    bool was_full = timer_armed(stream->stall_timer);
    if (!event_stream_full(stream))
        timer_disarm(stream->stall_timer);
    else if (!was_full)
        timer_arm(stream->stall_timer, STREAM_STALL_MILLISECONDS);
    bool is_full = timer_armed(stream->stall_timer);
    if (stream->finished && (stream->discarded || waiting(stream) == 0)) {
        connection_answer(streams->connection, stream->ticket, SHIM_RESULT, &stream->head,
                          sizeof stream->head);
        free_stream(stream);
    }
    if (was_full != is_full)
        streams->changed(streams->user);
}

/* --- events --------------------------------------------------------------------------------- */

/* Add an event whose JSON text is given by its members, without braces. */
static int append_event(struct event_stream *stream, const char *name, const char *members,
                        size_t length)
{
    struct buffer *pending = &stream->pending;
    const char *comma = length ? "," : "";
    size_t before = pending->length;
    int r = stream->format == STREAM_SSE
                ? buffer_printf(pending, "event: %s\ndata: {\"event\":\"%s\"%s", name, name, comma)
                : buffer_printf(pending, "{\"event\":\"%s\"%s", name, comma);
    if (r == 0)
        r = buffer_append(pending, members, length);
    if (r == 0)
        r = buffer_append_text(pending, stream->format == STREAM_SSE ? "}\n\n" : "}\n");
    if (r < 0)
        pending->length = before;
    return r;
}

static void drop_event(struct event_stream *stream, size_t length)
{
    stream->cut = true;
    stream->dropped_events++;
    stream->dropped_bytes += length;
}

/* Say what was dropped, before anything else is added. */
static void tell_dropped(struct event_stream *stream)
{
    char members[96];
    if (stream->dropped_events == 0)
        return;
    int length = snprintf(members, sizeof members, "\"events\":%llu,\"bytes\":%llu",
                          (unsigned long long)stream->dropped_events,
                          (unsigned long long)stream->dropped_bytes);
    if (append_event(stream, "dropped", members, (size_t)length) < 0)
        return;
    stream->dropped_events = 0;
    stream->dropped_bytes = 0;
}

/* How much more may wait in all streams together. */
static size_t room_in_all(const struct event_streams *streams)
{
    size_t bytes = 0;
    for (const struct event_stream *stream = streams->first; stream; stream = stream->next)
        bytes += waiting(stream);
    return bytes < MAX_PENDING_BYTES ? MAX_PENDING_BYTES - bytes : 0;
}

/* Once something was dropped, so is the rest until half of the room is free: one gap, and not one event here and one there.
 * Before that the owner holds the output of a full stream; but one message can make many events, and there may be many
 * streams that are read to their end. */
static bool has_room(const struct event_stream *stream, size_t length)
{
    size_t limit = stream->dropped_events ? STREAM_PENDING_BYTES / 2 : STREAM_PENDING_BYTES;
    return (!may_drop(stream) || waiting(stream) <= limit) &&
           length <= room_in_all(stream->streams);
}

static void put_text(struct event_stream *stream, const char *name, const char *members,
                     size_t length)
{
    if (stream->discarded)
        return;
    if (has_room(stream, length)) {
        tell_dropped(stream);
        if (append_event(stream, name, members, length) < 0)
            drop_event(stream, length);
    } else {
        drop_event(stream, length);
    }
    send_waiting(stream);
    settle(stream);
}

/* The members of an object as text without braces; free(). NULL when memory is out. */
static char *members_text(json_t *members, size_t *ret_length)
{
    char *text = json_dumps(members, JSON_COMPACT | JSON_ENSURE_ASCII);
    json_decref(members);
    if (!text)
        return NULL;
    *ret_length = strlen(text) - 2;
    memmove(text, text + 1, *ret_length);
    return text;
}

void event_stream_put(struct event_stream *stream, const char *name, json_t *members)
{
    size_t length = 0;
    _cleanup_free_ char *text = members_text(members ? members : json_object(), &length);
    if (text)
        put_text(stream, name, text, length);
    else
        drop_event(stream, 0);
}

void event_stream_finish(struct event_stream *stream, json_t *members,
                         const struct shim_result_head *head)
{
    size_t length = 0;
    _cleanup_free_ char *text = members_text(members, &length);
    stream->finished = true;
    stream->head = *head;
    if (!stream->discarded) {
        tell_dropped(stream);
        (void)append_event(stream, "end", text ? text : "", text ? length : 0);
        send_waiting(stream);
    }
    settle(stream);
}

/* --- as a recorder -------------------------------------------------------------------------- */

static bool is_ascii(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] >= 0x80)
            return false;
    }
    return true;
}

static void send_text(struct recorder *recorder, enum text_stream stream, const char *text,
                      size_t length)
{
    static const char *const names[] = {[STREAM_STDOUT] = "stdout", [STREAM_STDERR] = "stderr"};
    if (!is_ascii(text, length))
        return event_stream_put(own(recorder), names[stream],
                                json_pack("{s:s%}", "text", text, length));
    /* Most of what is streamed, and ten times as fast as jansson does it. */
    _cleanup_buffer_ struct buffer members = {0};
    int r = buffer_append_text(&members, "\"text\":");
    if (r == 0)
        r = quoted_append(&members, text, length);
    if (r == 0)
        put_text(own(recorder), names[stream], members.data, members.length);
    else
        drop_event(own(recorder), length);
}

static void send_display(struct recorder *recorder, const struct display *display)
{
    struct event_stream *stream = own(recorder);
    size_t room = room_in_all(stream->streams);
    bool short_of_room = room < MAX_RESULTS_BYTES;
    struct bundle_limits limits = {
        .bytes = short_of_room ? room : MAX_RESULTS_BYTES, .entries = MAX_RESULTS, .ascii = true};
    _cleanup_buffer_ struct buffer members = {0};
    int r = buffer_printf(&members, "\"output\":%zu,\"results\":[", display->number);
    size_t count = bundle_render(display, &limits, &members, &stream->cut);
    if (r == 0)
        r = buffer_append_text(&members, "]");
    if (r < 0 || (count == 0 && short_of_room))
        return drop_event(stream, members.length);
    put_text(stream, display->replaces ? "update" : "result", members.data, members.length);
}

static void send_exception(struct recorder *recorder, const struct exception *exception)
{
    json_t *traceback = exception->traceback
                            ? json_stringn(exception->traceback, exception->traceback_length)
                            : json_null();
    event_stream_put(own(recorder), "error",
                     json_pack("{s:O, s:O, s:o}", "error", exception->name, "error_value",
                               exception->value, "traceback", traceback));
}

static void send_clear(struct recorder *recorder)
{
    event_stream_put(own(recorder), "clear", NULL);
}

/* The client was sent all of it, or knows from `dropped` that it was not; the file is among those that are reported. */
static void ignore_whole_text(struct recorder *recorder _unused_, enum text_stream stream _unused_,
                              const char *path _unused_)
{
}

static bool is_cut(const struct recorder *recorder)
{
    return own((struct recorder *)(uintptr_t)recorder)->cut;
}

static const struct recorder_type type = {
    .text = send_text,
    .display = send_display,
    .exception = send_exception,
    .clear = send_clear,
    .whole_text = ignore_whole_text,
    .is_cut = is_cut,
};

struct recorder *event_stream_recorder(struct event_stream *stream)
{
    return &stream->recorder;
}

/* --- the client ----------------------------------------------------------------------------- */

void event_stream_hurry(struct event_stream *stream)
{
    stream->hurried = true;
    settle(stream);
}

static void stall_expired(struct timer *timer _unused_, void *user)
{
    struct event_stream *stream = user;
    stream->stalled = true;
    /* settle() would take the timer that has just fired for one that was never armed. */
    stream->streams->changed(stream->streams->user);
}

static struct event_stream *find(struct event_streams *streams, struct ticket ticket)
{
    struct event_stream *stream = streams->first;
    while (stream && !same_ticket(stream->ticket, ticket))
        stream = stream->next;
    return stream;
}

void event_streams_credit(struct event_streams *streams, struct ticket ticket, size_t bytes)
{
    struct event_stream *stream = find(streams, ticket);
    if (!stream || bytes > STREAM_WINDOW_BYTES - stream->credit)
        return;
    stream->credit += bytes;
    send_waiting(stream);
    if (timer_armed(stream->stall_timer))
        timer_arm(stream->stall_timer, STREAM_STALL_MILLISECONDS);
    if (waiting(stream) <= STREAM_PENDING_BYTES / 2)
        stream->stalled = false;
    settle(stream);
}

static void discard(struct event_stream *stream)
{
    stream->discarded = true;
    buffer_free(&stream->pending);
    stream->sent = 0;
    settle(stream);
}

void event_streams_discard(struct event_streams *streams, struct ticket ticket)
{
    struct event_stream *stream = find(streams, ticket);
    if (stream)
        discard(stream);
}

void event_streams_discard_old(struct event_streams *streams)
{
    struct event_stream *next;
    for (struct event_stream *stream = streams->first; stream; stream = next) {
        next = stream->next;
        if (!connection_knows(streams->connection, stream->ticket))
            discard(stream);
    }
}

/* Proxies and clients give up connections that are silent for long. */
static void silence(struct timer *timer, void *user)
{
    struct event_streams *streams = user;
    uint64_t now = now_ms();
    for (struct event_stream *stream = streams->first; stream; stream = stream->next) {
        bool quiet =
            waiting(stream) == 0 && now - stream->sent_at >= STREAM_SILENCE_MILLISECONDS / 2;
        if (!quiet || stream->discarded || stream->credit == 0)
            continue;
        if (stream->format == STREAM_SSE)
            (void)buffer_append_text(&stream->pending, ": keep-alive\n\n");
        else
            (void)append_event(stream, "keepalive", "", 0);
        send_waiting(stream);
    }
    if (streams->first)
        timer_arm(timer, STREAM_SILENCE_MILLISECONDS);
}

/* --- life ----------------------------------------------------------------------------------- */

struct event_streams *event_streams_new(struct loop *loop, struct connection *connection,
                                        void (*changed)(void *user), void *user)
{
    struct event_streams *streams = must_alloc(sizeof *streams);
    *streams = (struct event_streams){
        .loop = loop, .connection = connection, .changed = changed, .user = user};
    streams->silence_timer = timer_add(loop, silence, streams);
    return streams;
}

struct event_streams *event_streams_free(struct event_streams *streams)
{
    if (!streams)
        return NULL;
    while (streams->first)
        free_stream(streams->first);
    timer_remove(streams->silence_timer);
    free(streams);
    return NULL;
}

struct event_stream *event_stream_open(struct event_streams *streams, struct ticket ticket,
                                       enum stream_format format)
{
    if (streams->count == MAX_EVENT_STREAMS)
        return NULL;
    struct event_stream *stream = must_alloc(sizeof *stream);
    *stream = (struct event_stream){.recorder.type = &type,
                                    .streams = streams,
                                    .next = streams->first,
                                    .ticket = ticket,
                                    .format = format,
                                    .credit = STREAM_WINDOW_BYTES,
                                    .sent_at = now_ms()};
    stream->stall_timer = timer_add(streams->loop, stall_expired, stream);
    streams->first = stream;
    streams->count++;
    if (!timer_armed(streams->silence_timer))
        timer_arm(streams->silence_timer, STREAM_SILENCE_MILLISECONDS);
    return stream;
}
