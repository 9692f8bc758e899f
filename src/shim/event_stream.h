/* A recorder that sends the output of an execution on as it comes: server-sent events or JSON lines, finished bytes for the
 * client (API.md "Running code").
 *
 *     put ─▶ pending ─▶ in flight (no more than huskd gave credit for) ─▶ taken by the client
 *
 * A client that reads more slowly than the kernel puts out: when STREAM_PENDING_BYTES wait, the stream is *full*, and its owner
 * should hold the kernel's output, so that nothing is lost. That ends when the client has caught up; or when it takes
 * nothing for two seconds, or event_stream_hurry() was called: then events that do not fit are dropped and counted, and a
 * `dropped` event says so as soon as there is room. So a kernel never waits for a client that has stopped reading.
 *
 * A stream outlives its execution until the client has taken the last byte; then, or when nobody is there to read it, it
 * frees itself. The execution borrows it until event_stream_finish(). Loop thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "husk/shim_protocol.h"
#include "loop/loop.h"
#include "shim/connection.h"
#include "shim/recorder.h"

enum stream_format {
    STREAM_SSE,
    STREAM_NDJSON
};

/* "sse" or "ndjson"; absent (NULL): no stream is wanted. 0 or -EINVAL. */
int stream_format_read(const json_t *name, bool *ret_wanted, enum stream_format *ret_format);

/* All streams of a shim. */
struct event_streams;
struct event_stream;

/* Borrows all. `changed`: some stream has become full, or is no longer so. */
struct event_streams *event_streams_new(struct loop *loop, struct connection *connection,
                                        void (*changed)(void *user), void *user);
struct event_streams *event_streams_free(struct event_streams *streams); /* NULL ok, returns NULL */

/* NULL: there are too many already. */
struct event_stream *event_stream_open(struct event_streams *streams, struct ticket ticket,
                                       enum stream_format format);
struct recorder *event_stream_recorder(struct event_stream *stream);
/* Send an event: `members` (stolen; NULL: none) are what it has besides its name. */
void event_stream_put(struct event_stream *stream, const char *name, json_t *members);
bool event_stream_full(const struct event_stream *stream);
void event_stream_hurry(struct event_stream *stream);
/* The last event, which always fits; `head` follows when the client has taken it. Gives the stream away. */
void event_stream_finish(struct event_stream *stream, json_t *members,
                         const struct shim_result_head *head);

/* The client has taken so many bytes. */
void event_streams_credit(struct event_streams *streams, struct ticket ticket, size_t bytes);
/* The client has gone away. */
void event_streams_discard(struct event_streams *streams, struct ticket ticket);
/* huskd is a new one: whoever read the streams of the one before is gone. */
void event_streams_discard_old(struct event_streams *streams);
