#include "base/frame.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fdio.h"

enum {
    /* What is read at a time: most messages are small, and memory of 128 KiB and more is mapped and unmapped by malloc each
     * time. Of a large one as much as is missing. */
    READ_STEP = 16 * 1024,
    LARGEST_READ_STEP = 256 * 1024,
    KEPT_CAPACITY = 16 * 1024 /* an empty buffer of more is given back */
};

_Static_assert(sizeof(struct frame_header) == 16, "the header is sent as it is");

void frame_stream_init(struct frame_stream *stream, int fd, uint32_t receive_limit,
                       size_t send_limit)
{
    *stream = (struct frame_stream){.fd = fd, .receive_limit = receive_limit};
    stream->in = BUFFER_LIMITED(receive_limit + sizeof(struct frame_header) + LARGEST_READ_STEP);
    stream->out = BUFFER_LIMITED(send_limit);
}

void frame_stream_close(struct frame_stream *stream)
{
    stream->fd = close_fd(stream->fd);
    buffer_free(&stream->in);
    buffer_free(&stream->out);
    stream->sent = 0;
    stream->delivered = 0;
}

int frame_queue(struct frame_stream *stream, uint16_t type, uint64_t tag, const void *payload,
                size_t length)
{
    if (stream->fd < 0)
        return -EPIPE;
    if (length > UINT32_MAX)
        return -EMSGSIZE;
    struct frame_header header = {
        .version = FRAME_VERSION, .type = type, .length = (uint32_t)length, .tag = tag};
    buffer_consume(&stream->out, stream->sent);
    stream->sent = 0;
    /* Room for the whole frame first: half a frame must never be queued. */
    if (!buffer_reserve(&stream->out, sizeof header + length))
        return -ENOSPC;
    (void)buffer_append(&stream->out, &header, sizeof header);
    (void)buffer_append(&stream->out, payload, length);
    return 0;
}

int frame_send(struct frame_stream *stream, uint16_t type, uint64_t tag, const void *payload,
               size_t length)
{
    int r = frame_queue(stream, type, tag, payload, length);
    return r < 0 ? r : frame_flush(stream);
}

/* One large answer must not cost its memory for the rest of the connection's life. */
static void empty(struct buffer *buffer)
{
    if (buffer->capacity > KEPT_CAPACITY)
        buffer_free(buffer);
    else
        buffer_clear(buffer);
}

int frame_flush(struct frame_stream *stream)
{
    while (frame_wants_write(stream)) {
        ssize_t n = send(stream->fd, stream->out.data + stream->sent,
                         stream->out.length - stream->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            stream->sent += (size_t)n;
        else if (errno != EINTR)
            return errno == EAGAIN ? 0 : -errno;
    }
    empty(&stream->out);
    stream->sent = 0;
    return 0;
}

size_t frame_backlog(const struct frame_stream *stream)
{
    return stream->out.length - stream->sent;
}

bool frame_wants_write(const struct frame_stream *stream)
{
    return frame_backlog(stream) > 0;
}

static void drop_delivered(struct frame_stream *stream)
{
    if (stream->delivered) {
        buffer_consume(&stream->in, stream->delivered);
        stream->delivered = 0;
        /* A large message must not stay as a large buffer: there is a stream for each sandbox. */
        if (stream->in.length == 0)
            buffer_free(&stream->in);
    }
}

/* How much to read: the rest of the frame that has begun, if that is much. Whether its length is acceptable, frame_next()
 * has said already. */
static size_t read_step(const struct frame_stream *stream)
{
    struct frame_header header;
    if (stream->in.length < sizeof header)
        return READ_STEP;
    memcpy(&header, stream->in.data, sizeof header);
    size_t whole = sizeof header + header.length;
    size_t missing = whole > stream->in.length ? whole - stream->in.length : 0;
    if (missing > LARGEST_READ_STEP)
        return LARGEST_READ_STEP;
    return missing > READ_STEP ? missing : READ_STEP;
}

int frame_fill(struct frame_stream *stream)
{
    drop_delivered(stream);
    size_t step = read_step(stream);
    char *room = buffer_reserve(&stream->in, step);
    if (!room)
        return -ENOMEM;
    ssize_t n = recv(stream->fd, room, step, MSG_DONTWAIT);
    int error = errno;
    if (n <= 0 && stream->in.length == 0)
        buffer_free(&stream->in);
    if (n < 0)
        return error == EINTR ? -EAGAIN : -error;
    if (n == 0)
        return -EPIPE;
    buffer_grow(&stream->in, (size_t)n);
    return 0;
}

int frame_next(struct frame_stream *stream, struct frame_header *header, const char **payload,
               struct failure *why)
{
    drop_delivered(stream);
    if (stream->in.length < sizeof *header)
        return 0;
    memcpy(header, stream->in.data, sizeof *header);
    if (header->version != FRAME_VERSION)
        return fail_plain(why, EPROTO, "the peer speaks version %u of the messages, this is %u",
                          header->version, (unsigned)FRAME_VERSION);
    if (header->length > stream->receive_limit)
        return fail_plain(why, EMSGSIZE, "message of %u bytes, at most %u are taken",
                          header->length, stream->receive_limit);
    size_t whole = sizeof *header + header->length;
    if (stream->in.length < whole)
        return 0;
    *payload = stream->in.data + sizeof *header;
    stream->delivered = whole;
    return 1;
}
