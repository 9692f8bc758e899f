/* An answer that is sent while it comes into being: bytes from a shim (finished events, see husk/shim_protocol.h), passed on at the
 * client's pace. It holds at most STREAM_WINDOW_BYTES: the shim gets credit only for what the client has taken.
 *
 *     the request waits ── first bytes ──▶ OPEN ── the shim is done ──▶ ENDED: what is left is sent
 *            └── refused: a problem          └── client gone, sandbox gone ──▶ BROKEN
 *
 * Made by a handler, which then waits. Belongs to its request; from the first bytes on to the response. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct MHD_Response;
struct problem;
struct request;
struct stream;

enum stream_kind {
    STREAM_NONE,
    STREAM_EVENTS, /* text/event-stream */
    STREAM_LINES,  /* application/x-ndjson */
    STREAM_BYTES   /* anything else; stream_new_from() */
};

/* Who the bytes come from, if it is not a shim. */
struct stream_source {
    void (*credit)(void *user, size_t bytes); /* the client has taken so many */
    void (*stop)(void *user);                 /* nobody wants more; no more calls after this */
    void (*describe)(void *user, struct MHD_Response *response); /* add the headers */
};

/* Which kind the Accept header asks for; NULL: there is none. */
enum stream_kind stream_wanted(const char *accept);
/* As the shim calls it. */
const char *stream_kind_name(enum stream_kind kind);

struct stream *stream_new(struct request *request, enum stream_kind kind);
struct stream *stream_new_from(struct request *request, const struct stream_source *source,
                               void *user); /* both are borrowed */
void stream_free(struct stream *stream);

/* Bytes have come. The first ones answer the request. */
void stream_add(struct stream *stream, const char *data, size_t length);
/* The shim is done; `problem`: it is not, but no more will come. Answers the request if nothing did yet. */
void stream_end(struct stream *stream, const struct problem *problem);
size_t stream_backlog(const struct stream *stream); /* bytes that wait for the client */
/* Does the answer still come into being? */
bool stream_is_open(const struct stream *stream);

/* For the server: sending begins; huskd ends, and so does the stream; the request is over, for whatever reason. */
void stream_begin(struct stream *stream);
void stream_dismiss(struct stream *stream, const struct problem *problem);
void stream_leave(struct stream *stream);
