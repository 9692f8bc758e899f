#include "shim/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "husk/limits.h"

enum {
    /* When more than this waits for huskd to read it, its next requests wait, too: each may be answered by much. */
    BACKLOG = 1 * MIB,
    /* That, the answer to one request, and the result of an execution, which comes when it comes. */
    SEND_LIMIT = BACKLOG + 2 * MAX_ANSWER_BYTES,
};

struct connection {
    struct loop *loop;
    int listener;
    struct source *listen_source;
    struct source *source; /* NULL: huskd is not there */
    struct frame_stream stream;
    uint64_t serial; /* of the newest connection */
    bool paused;     /* requests wait until huskd has read what it asked for before */
    connection_callback callback;
    void *user;
};

static void drop(struct connection *connection)
{
    connection->source = source_remove(connection->source);
    frame_stream_close(&connection->stream);
    connection->paused = false;
}

/* Wait for room in the socket only while something waits for it. */
static void watch(struct connection *connection)
{
    bool waiting = connection->paused || frame_wants_write(&connection->stream);
    uint32_t events = connection->paused ? 0 : EPOLLIN;
    (void)source_set_events(connection->source, waiting ? events | EPOLLOUT : events);
}

/* The callback may drop or replace the connection. */
static void take_frames(struct connection *connection)
{
    uint64_t serial = connection->serial;
    for (;;) {
        connection->paused = frame_backlog(&connection->stream) > BACKLOG;
        if (connection->paused)
            return;
        struct frame_header header;
        const char *payload;
        struct failure why;
        int r = frame_next(&connection->stream, &header, &payload, &why);
        if (r < 0) {
            log_event(LOG_ERROR, "huskd is dropped", "reason", why.text, NULL);
            return drop(connection);
        }
        if (r == 0)
            break;
        struct ticket ticket = {.connection = serial, .tag = header.tag};
        connection->callback(connection->user, header.type, ticket, payload, header.length);
        if (!connection->source || connection->serial != serial)
            return;
    }
}

static void ready(struct source *source _unused_, uint32_t events, void *user)
{
    struct connection *connection = user;
    if (events & EPOLLOUT) {
        uint64_t serial = connection->serial;
        if (frame_flush(&connection->stream) < 0)
            return drop(connection);
        if (connection->paused)
            take_frames(connection);
        if (!connection->source || connection->serial != serial)
            return;
        watch(connection);
    }
    if (events & ~(uint32_t)EPOLLOUT) {
        int r = frame_fill(&connection->stream);
        if (r == -EAGAIN)
            return;
        if (r < 0)
            return drop(connection);
        take_frames(connection);
    }
}

/* The newest wins: a huskd that was killed may leave its connection behind for a moment. */
static void acceptable(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct connection *connection = user;
    int fd = accept4(connection->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    /* What the last huskd said before it died counts, most of all SHIM_RECORD. */
    while (connection->source && frame_fill(&connection->stream) == 0)
        take_frames(connection);
    drop(connection);
    connection->serial++;
    frame_stream_init(&connection->stream, fd, MAX_EXECUTE_FRAME_BYTES, SEND_LIMIT);
    connection->source = source_add(connection->loop, fd, EPOLLIN, ready, connection);
    if (!connection->source)
        drop(connection);
}

struct connection *connection_new(struct loop *loop, int listener, connection_callback callback,
                                  void *user)
{
    struct connection *connection = must_alloc(sizeof *connection);
    *connection = (struct connection){
        .loop = loop, .listener = listener, .callback = callback, .user = user, .stream.fd = -1};
    connection->listen_source = source_add(loop, listener, EPOLLIN, acceptable, connection);
    if (!connection->listen_source || set_nonblocking(listener, true) < 0)
        return connection_free(connection);
    return connection;
}

struct connection *connection_free(struct connection *connection)
{
    if (!connection)
        return NULL;
    drop(connection);
    source_remove(connection->listen_source);
    free(connection);
    return NULL;
}

bool connection_knows(const struct connection *connection, struct ticket ticket)
{
    return connection->source && connection->serial == ticket.connection;
}

void connection_answer(struct connection *connection, struct ticket ticket, enum shim_type type,
                       const void *payload, size_t length)
{
    if (!connection_knows(connection, ticket))
        return;
    int r = frame_queue(&connection->stream, (uint16_t)type, ticket.tag, payload, length);
    if (r == 0)
        return;
    log_event(LOG_WARNING, "huskd is dropped", "reason",
              r == -ENOSPC ? "it does not read" : strerror(-r), NULL);
    drop(connection);
}

void connection_flush(struct connection *connection)
{
    if (!connection->source)
        return;
    if (frame_wants_write(&connection->stream) && frame_flush(&connection->stream) < 0)
        return drop(connection);
    watch(connection);
}

void connection_tell(struct connection *connection, enum shim_type type, const void *payload,
                     size_t length)
{
    struct ticket ticket = {.connection = connection->serial};
    connection_answer(connection, ticket, type, payload, length);
}

void connection_tell_tagged(struct connection *connection, enum shim_type type, uint64_t tag,
                            const void *payload, size_t length)
{
    struct ticket ticket = {.connection = connection->serial, .tag = tag};
    connection_answer(connection, ticket, type, payload, length);
}

bool connection_present(const struct connection *connection)
{
    return connection->source != NULL;
}
