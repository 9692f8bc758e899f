/* The streams of a shim, and a huskd that reads them at the pace a test wants, on the same loop and over a real socket. */
#pragma once

#include "run_loop.h"

#include <jansson.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/fdio.h"
#include "base/frame.h"
#include "husk/limits.h"
#include "shim/connection.h"
#include "shim/event_stream.h"

enum {
    READER_TAGS = MAX_EVENT_STREAMS + 3
};

/* What has come for one stream. */
struct heard {
    struct buffer bytes;
    size_t frames;
    size_t in_flight; /* bytes for which no credit was given */
    unsigned results;
    struct shim_result_head head;
};

struct shim_side {
    struct loop *loop;
    char folder[32], path[64];
    int listener;
    struct connection *connection;
    struct event_streams *streams;
    unsigned changes;    /* calls of `changed` */
    struct ticket hello; /* of the last SHIM_HELLO: of the newest connection */
    unsigned hellos;

    struct frame_stream reader; /* huskd's end */
    struct source *source;
    bool eager; /* it gives credit for all that comes */
    struct heard heard[READER_TAGS];
};

static void reader_credit(struct shim_side *side, uint64_t tag, uint32_t bytes)
{
    struct shim_credit credit = {.bytes = bytes};
    struct heard *heard = &side->heard[tag];
    heard->in_flight -= bytes < heard->in_flight ? bytes : heard->in_flight;
    assert_int_equal(frame_send(&side->reader, SHIM_CREDIT, tag, &credit, sizeof credit), 0);
}

static void reader_frame(struct shim_side *side, const struct frame_header *header,
                         const char *payload)
{
    assert_in_range(header->tag, 1, READER_TAGS - 1);
    struct heard *heard = &side->heard[header->tag];
    assert_int_equal(heard->results, 0); /* nothing comes after the end, nor a second one */
    if (header->type == SHIM_RESULT) {
        assert_int_equal(header->length, sizeof heard->head);
        memcpy(&heard->head, payload, sizeof heard->head);
        heard->results++;
        return;
    }
    assert_int_equal(header->type, SHIM_STREAM);
    assert_in_range(header->length, 1, STREAM_CHUNK_BYTES);
    assert_int_equal(buffer_append(&heard->bytes, payload, header->length), 0);
    heard->frames++;
    heard->in_flight += header->length;
    assert_in_range(heard->in_flight, 1, STREAM_WINDOW_BYTES);
    if (side->eager)
        reader_credit(side, header->tag, header->length);
}

static void reader_readable(struct source *source, uint32_t events, void *user)
{
    struct shim_side *side = user;
    struct frame_header header;
    const char *payload;
    (void)source;
    (void)events;
    assert_int_equal(frame_fill(&side->reader), 0);
    while (frame_next(&side->reader, &header, &payload, NULL) > 0)
        reader_frame(side, &header, payload);
}

static void shim_side_frame(void *user, uint16_t type, struct ticket ticket, const char *payload,
                            size_t length)
{
    struct shim_side *side = user;
    struct shim_credit credit;
    if (type == SHIM_CREDIT) {
        assert_int_equal(length, sizeof credit);
        memcpy(&credit, payload, sizeof credit);
        event_streams_credit(side->streams, ticket, credit.bytes);
    } else {
        assert_int_equal(type, SHIM_HELLO);
        side->hello = ticket;
        side->hellos++;
    }
}

static void shim_side_changed(void *user)
{
    ((struct shim_side *)user)->changes++;
}

static void reader_leave(struct shim_side *side)
{
    side->source = source_remove(side->source);
    frame_stream_close(&side->reader);
}

/* A new huskd, in place of the one before. */
static void reader_connect(struct shim_side *side)
{
    unsigned hellos = side->hellos;
    reader_leave(side);
    int fd = unix_connect(side->path, SOCK_STREAM | SOCK_NONBLOCK);
    assert_true(fd >= 0);
    frame_stream_init(&side->reader, fd, 1 * MIB, 1 * MIB);
    side->source = source_add(side->loop, fd, EPOLLIN, reader_readable, side);
    assert_non_null(side->source);
    assert_int_equal(frame_send(&side->reader, SHIM_HELLO, 0, "", 0), 0);
    RUN_UNTIL(side->loop, side->hellos > hellos);
}

static void shim_side_before_wait(void *user)
{
    struct shim_side *side = user;
    connection_flush(side->connection);
}

static struct shim_side *shim_side_start(void)
{
    struct shim_side *side = calloc(1, sizeof *side);
    assert_non_null(side);
    side->reader.fd = -1;
    side->loop = loop_new();
    make_directory(side->folder);
    (void)snprintf(side->path, sizeof side->path, "%s/shim", side->folder);
    side->listener = unix_listen(side->path, SOCK_STREAM);
    assert_true(side->listener >= 0);
    side->connection = connection_new(side->loop, side->listener, shim_side_frame, side);
    side->streams = event_streams_new(side->loop, side->connection, shim_side_changed, side);
    loop_before_wait(side->loop, shim_side_before_wait, side);
    reader_connect(side);
    return side;
}

static void shim_side_stop(struct shim_side *side)
{
    assert_null(event_streams_free(side->streams));
    connection_free(side->connection);
    reader_leave(side);
    close(side->listener);
    assert_int_equal(unlink(side->path), 0);
    assert_int_equal(rmdir(side->folder), 0);
    for (size_t i = 0; i < READER_TAGS; i++)
        buffer_free(&side->heard[i].bytes);
    loop_free(side->loop);
    free(side);
}

static struct ticket ticket_of(const struct shim_side *side, uint64_t tag)
{
    return (struct ticket){.connection = side->hello.connection, .tag = tag};
}

static struct event_stream *open_stream(struct shim_side *side, uint64_t tag,
                                        enum stream_format format)
{
    struct event_stream *stream = event_stream_open(side->streams, ticket_of(side, tag), format);
    assert_non_null(stream);
    return stream;
}

/* The end, with a head that tells the tags apart. */
_unused_ static void finish_stream(struct event_stream *stream, uint64_t tag)
{
    struct shim_result_head head = {.status = EXECUTION_ERROR, .duration_ms = 1000 + tag};
    event_stream_finish(stream, json_pack("{s:s}", "status", "error"), &head);
}

/* Give credit for all that was heard until the end has come. */
_unused_ static void read_to_end(struct shim_side *side, uint64_t tag)
{
    struct heard *heard = &side->heard[tag];
    side->eager = true;
    if (heard->in_flight > 0)
        reader_credit(side, tag, (uint32_t)heard->in_flight);
    RUN_UNTIL(side->loop, heard->results == 1);
    assert_int_equal(heard->head.status, EXECUTION_ERROR);
    assert_int_equal(heard->head.duration_ms, 1000 + tag);
}

/* --- events --------------------------------------------------------------------------------- */

/* The JSON of an event at `text`, which has `length` bytes without the end of the event. */
static json_t *parse_event(const char *text, size_t length, enum stream_format format)
{
    char head[64] = "";
    const char *json = text;
    if (format == STREAM_SSE) {
        json = memmem(text, length, "\ndata: ", 7);
        assert_non_null(json);
        json += 7;
    }
    size_t json_length = length - (size_t)(json - text);
    json_t *event = json_loadb(json, json_length, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
    if (!event)
        fail_msg("this is no event: %.*s", (int)length, text);
    const char *name = json_string_value(json_object_get(event, "event"));
    assert_non_null(name);
    if (format == STREAM_SSE)
        (void)snprintf(head, sizeof head, "event: %s\ndata: ", name);
    assert_int_equal(strlen(head), json - text);
    assert_memory_equal(text, head, strlen(head));
    return event;
}

/* All events that have come, in an array (a new reference); each is whole, one line of JSON, and ASCII. */
_unused_ static json_t *events_heard(const struct heard *heard, enum stream_format format)
{
    const char *end_mark = format == STREAM_SSE ? "\n\n" : "\n";
    json_t *events = json_array();
    const char *at = heard->bytes.data, *stop = at + heard->bytes.length;
    for (const char *c = at; c < stop; c++) {
        if ((*c < ' ' && *c != '\n') || (unsigned char)*c > 0x7f)
            fail_msg("byte 0x%02x in a stream", (unsigned char)*c);
    }
    while (at < stop) {
        const char *end = memmem(at, (size_t)(stop - at), end_mark, strlen(end_mark));
        assert_non_null(end);
        assert_int_equal(json_array_append_new(events, parse_event(at, (size_t)(end - at), format)),
                         0);
        at = end + strlen(end_mark);
    }
    return events;
}

_unused_ static const char *event_name(const json_t *events, size_t index)
{
    const char *name = json_string_value(json_object_get(json_array_get(events, index), "event"));
    return name ? name : "(none)";
}
