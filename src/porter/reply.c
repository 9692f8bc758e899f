#include "porter/reply.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/frame.h"

/* Whoever waits for a block has another PORTER_SECONDS to take it. */
static int send_frame(struct reply *reply, enum porter_type type, const void *payload,
                      size_t length)
{
    struct frame_header header = {
        .version = FRAME_VERSION, .type = (uint16_t)type, .length = (uint32_t)length};
    (void)alarm(PORTER_SECONDS);
    int r = write_all(reply->fd, &header, sizeof header);
    return r < 0 ? r : write_all(reply->fd, payload, length);
}

int reply_receive(struct reply *reply, struct porter_request *request,
                  char path[MAX_FILE_PATH_BYTES + 1])
{
    struct frame_header header;
    int r = read_exactly(reply->fd, &header, sizeof header);
    if (r < 0)
        return r;
    if (header.version != FRAME_VERSION || header.type != PORTER_REQUEST ||
        header.length < sizeof *request)
        return -EPROTO;
    r = read_exactly(reply->fd, request, sizeof *request);
    if (r < 0)
        return r;
    if (request->path_bytes > MAX_FILE_PATH_BYTES ||
        header.length != sizeof *request + request->path_bytes)
        return -EPROTO;
    path[request->path_bytes] = '\0';
    return read_exactly(reply->fd, path, request->path_bytes);
}

int reply_begin(struct reply *reply, bool incomplete)
{
    struct porter_begin begin = {.incomplete = incomplete};
    reply->begun = true;
    return send_frame(reply, PORTER_BEGIN, &begin, sizeof begin);
}

int reply_data(struct reply *reply, const void *data, size_t length)
{
    const char *next = data;
    int r = 0;
    while (length > 0 && r == 0) {
        size_t part = length < PORTER_BLOCK_BYTES ? length : PORTER_BLOCK_BYTES;
        r = send_frame(reply, PORTER_DATA, next, part);
        next += part;
        length -= part;
    }
    return r;
}

void reply_end(struct reply *reply, struct porter_end *end, const struct failure *why)
{
    if (end->status < 0)
        (void)snprintf(end->text, sizeof end->text, "%s", why->text);
    (void)send_frame(reply, PORTER_END, end, sizeof *end);
}

bool reply_unwanted(const struct reply *reply)
{
    char byte;
    ssize_t n = recv(reply->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}
