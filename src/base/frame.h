/* Framed messages over a stream socket: a 16-byte header, then `length` bytes of payload. Used
 * between huskd and the shims. The reader checks version and length before it takes
 * memory for a payload. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/failure.h"

enum {
    FRAME_VERSION = 1
};

struct frame_header {
    uint16_t version; /* FRAME_VERSION of the sender */
    uint16_t type;
    uint32_t length; /* of the payload */
    uint64_t tag;    /* which request this belongs to; 0: none */
};

/* One connected, non-blocking stream socket with its two buffers. Zero-initialise, then
 * frame_stream_init(). States: open, then failed for good after the first error; the owner closes
 * it. Owner: the loop thread. */
struct frame_stream {
    int fd;
    uint32_t receive_limit; /* largest payload accepted */
    struct buffer in;
    struct buffer out;
    size_t
        sent; /* bytes of `out` that are gone already: moving the rest up after each would be costly */
    size_t delivered; /* bytes of `in` that belong to the frame handed out last */
};

/* Takes `fd`. `send_limit` bounds what may wait unsent: a peer that does not read gets -ENOSPC, and
 * is then dropped. */
void frame_stream_init(struct frame_stream *stream, int fd, uint32_t receive_limit,
                       size_t send_limit);
void frame_stream_close(struct frame_stream *stream); /* closes fd (if >= 0), frees buffers */

/* Queue a frame; frame_flush() sends it, with all that was queued before it. 0, -ENOSPC, -EPIPE… */
int frame_queue(struct frame_stream *stream, uint16_t type, uint64_t tag, const void *payload,
                size_t length);
/* The same, and try to send at once. */
int frame_send(struct frame_stream *stream, uint16_t type, uint64_t tag, const void *payload,
               size_t length);
/* Send what waits; call when the socket is writable. 0 or -errno. */
int frame_flush(struct frame_stream *stream);
bool frame_wants_write(const struct frame_stream *stream);
size_t frame_backlog(const struct frame_stream *stream); /* bytes that wait to be sent */

/* Read what is there; call when the socket is readable, then take frames with frame_next() until it
 * returns 0. 0, -EAGAIN, -EPIPE at the end, -errno. */
int frame_fill(struct frame_stream *stream);
/* 1: *header and *payload (borrowed until the next call) are set; 0: none complete;
 * -EPROTO/-EMSGSIZE: drop the peer. */
int frame_next(struct frame_stream *stream, struct frame_header *header, const char **payload,
               struct failure *why);
