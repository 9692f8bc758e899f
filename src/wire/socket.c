#include "wire/socket.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

enum {
    RECONNECT_MILLISECONDS = 2, /* the kernel binds some time after we connect */
    SEND_QUEUE = 64,
};

static int set_options(void *handle, const struct socket_setup *setup)
{
    static const struct {
        int option;
        int value;
    } numbers[] = {
        {ZMQ_LINGER, 0},
        {ZMQ_RCVHWM, WIRE_RECEIVE_QUEUE},
        {ZMQ_SNDHWM, SEND_QUEUE},
        {ZMQ_RECONNECT_IVL, RECONNECT_MILLISECONDS},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
        if (zmq_setsockopt(handle, numbers[i].option, &numbers[i].value, sizeof(int)) < 0)
            return -1;
    }
    int64_t largest = MAX_WIRE_FRAME_BYTES;
    if (zmq_setsockopt(handle, ZMQ_MAXMSGSIZE, &largest, sizeof largest) < 0)
        return -1;
    if (setup->kind == SOCKET_SUBSCRIBER)
        return zmq_setsockopt(handle, ZMQ_SUBSCRIBE, "", 0);
    return zmq_setsockopt(handle, ZMQ_ROUTING_ID, setup->routing_id, strlen(setup->routing_id));
}

int socket_open(struct socket *socket, const struct socket_setup *setup, struct failure *why)
{
    void *handle = zmq_socket(setup->context, setup->kind == SOCKET_DEALER ? ZMQ_DEALER : ZMQ_SUB);
    if (!handle)
        return fail_plain(why, errno, "ZeroMQ socket: %s", zmq_strerror(errno));
    if (set_options(handle, setup) < 0 || zmq_connect(handle, setup->endpoint) < 0) {
        int r = fail_plain(why, errno, "connect to %s: %s", setup->endpoint, zmq_strerror(errno));
        (void)zmq_close(handle);
        return r;
    }
    socket->handle = handle;
    return 0;
}

void socket_close(struct socket *socket)
{
    if (socket->handle)
        (void)zmq_close(socket->handle);
    socket->handle = NULL;
}

int socket_descriptor(const struct socket *socket)
{
    int fd = -1;
    size_t size = sizeof fd;
    return zmq_getsockopt(socket->handle, ZMQ_FD, &fd, &size) < 0 ? -1 : fd;
}

static int send_part(struct socket *socket, struct part part, int flags)
{
    for (;;) {
        if (zmq_send(socket->handle, part.data, part.length, flags | ZMQ_DONTWAIT) >= 0)
            return 0;
        if (errno != EINTR)
            return -errno;
    }
}

int socket_send(struct socket *socket, const struct part *parts, size_t count)
{
    /* Once libzmq has taken the first part it takes the others, so nothing is ever sent by half. */
    for (size_t i = 0; i < count; i++) {
        int r = send_part(socket, parts[i], i + 1 < count ? ZMQ_SNDMORE : 0);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Keep the part, or throw it away and remember that there was too much. */
static void parcel_add(struct parcel *parcel, zmq_msg_t *message)
{
    size_t length = zmq_msg_size(message);
    if (parcel->oversized || parcel->count == MAX_WIRE_FRAMES ||
        length > MAX_WIRE_MESSAGE_BYTES - parcel->bytes) {
        parcel->oversized = true;
        (void)zmq_msg_close(message);
        return;
    }
    size_t at = parcel->count++;
    zmq_msg_t *kept = &parcel->messages[at];
    (void)zmq_msg_init(kept);
    (void)zmq_msg_move(kept, message);
    (void)zmq_msg_close(message);
    parcel->bytes += length;
    /* Asked of `kept`: a small message carries its bytes in the structure itself. */
    parcel->parts[at] = (struct part){zmq_msg_data(kept), length};
}

int socket_receive(struct socket *socket, struct parcel *parcel)
{
    bool more = true;
    for (bool first = true; more; first = false) {
        zmq_msg_t message;
        (void)zmq_msg_init(&message);
        int n;
        do {
            n = zmq_msg_recv(&message, socket->handle, ZMQ_DONTWAIT);
        } while (n < 0 && errno == EINTR);
        if (n < 0) {
            int r = first && errno == EAGAIN ? 0 : -errno;
            (void)zmq_msg_close(&message);
            return r;
        }
        more = zmq_msg_more(&message);
        parcel_add(parcel, &message);
    }
    return 1;
}

void parcel_free(struct parcel *parcel)
{
    for (size_t i = 0; i < parcel->count; i++)
        (void)zmq_msg_close(&parcel->messages[i]);
    parcel->count = 0;
    parcel->bytes = 0;
    parcel->oversized = false;
}
