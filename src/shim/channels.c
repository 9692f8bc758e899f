#include "shim/channels.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/attributes.h"
#include "base/log.h"
#include "base/memory.h"
#include "shim/kernel_files.h"
#include "wire/socket.h"

enum {
    SESSION_BYTES = 16,
    SESSION_TEXT_SIZE = SESSION_BYTES * 2 + 1,
    ROUTING_ID_SIZE = SESSION_TEXT_SIZE + 24,

    /* Of one channel, before the others and the rest of the loop have their turn. */
    BATCH_MESSAGES = 32,
    BATCH_BYTES = 4 * MIB,
};

struct channels {
    struct loop *loop;
    void *context;
    const struct channels_events *events;
    void *user;
    char session[SESSION_TEXT_SIZE];
    uint64_t last_number;
    unsigned generation;
    struct socket sockets[CHANNEL_COUNT];
    struct source *sources[CHANNEL_COUNT];
    uint64_t openings; /* changes with every opening and closing of a socket */
    char routing_id[ROUTING_ID_SIZE];
    struct signatures signatures;
    bool stirred[CHANNEL_COUNT]; /* there may be something to take in */
    bool holding;
    uint64_t refused;
};

struct channels *channels_new(struct loop *loop, const struct channels_events *events, void *user,
                              struct failure *why)
{
    void *context = zmq_ctx_new();
    if (!context) {
        (void)fail_plain(why, errno, "ZeroMQ: %s", zmq_strerror(errno));
        return NULL;
    }
    struct channels *channels = must_alloc(sizeof *channels);
    *channels = (struct channels){.loop = loop, .context = context, .events = events, .user = user};
    unsigned char bytes[SESSION_BYTES];
    randombytes_buf(bytes, sizeof bytes);
    (void)sodium_bin2hex(channels->session, sizeof channels->session, bytes, sizeof bytes);
    return channels;
}

struct channels *channels_free(struct channels *channels)
{
    if (!channels)
        return NULL;
    channels_close(channels);
    (void)zmq_ctx_term(channels->context);
    free(channels);
    return NULL;
}

/* --- opening and closing ------------------------------------------------------------------- */

/* The work is done by channels_pump(), before the next wait. */
static void readable(struct source *source, uint32_t events _unused_, void *user)
{
    struct channels *channels = user;
    for (enum channel channel = 0; channel < CHANNEL_COUNT; channel++)
        channels->stirred[channel] |= channels->sources[channel] == source;
}

static void close_one(struct channels *channels, enum channel channel)
{
    channels->sources[channel] = source_remove(channels->sources[channel]);
    socket_close(&channels->sockets[channel]);
    channels->openings++;
}

static int open_one(struct channels *channels, enum channel channel, struct failure *why)
{
    static const enum kernel_port ports[] = {
        [CHANNEL_SHELL] = PORT_SHELL,
        [CHANNEL_CONTROL] = PORT_CONTROL,
        [CHANNEL_STDIN] = PORT_STDIN,
        [CHANNEL_IOPUB] = PORT_IOPUB,
    };
    char endpoint[KERNEL_FILE_NAME_SIZE];
    (void)snprintf(endpoint, sizeof endpoint, "ipc://" KERNEL_SOCKET_FORMAT, channels->generation,
                   (unsigned)ports[channel]);
    struct socket_setup setup = {
        .context = channels->context,
        .kind = channel == CHANNEL_IOPUB ? SOCKET_SUBSCRIBER : SOCKET_DEALER,
        .endpoint = endpoint,
        .routing_id = channels->routing_id,
    };
    struct socket *socket = &channels->sockets[channel];
    int r = socket_open(socket, &setup, why);
    if (r < 0)
        return r;
    bool held = channels->holding && channel == CHANNEL_IOPUB;
    channels->sources[channel] = source_add(channels->loop, socket_descriptor(socket),
                                            held ? 0 : EPOLLIN, readable, channels);
    channels->openings++;
    channels->stirred[channel] = true;
    if (!channels->sources[channel])
        return fail(why, errno, "watch %s", endpoint);
    return 0;
}

/* A new one each time, because a router refuses or confuses two peers of one name. */
static void renew_routing_id(struct channels *channels)
{
    (void)snprintf(channels->routing_id, sizeof channels->routing_id, "%s.%llu", channels->session,
                   (unsigned long long)channels->openings);
}

int channels_open(struct channels *channels, unsigned generation, const char *key,
                  struct failure *why)
{
    channels_close(channels);
    channels->generation = generation;
    signatures_init(&channels->signatures, key, strlen(key));
    renew_routing_id(channels);
    for (enum channel channel = 0; channel < CHANNEL_COUNT; channel++) {
        int r = open_one(channels, channel, why);
        if (r < 0) {
            channels_close(channels);
            return r;
        }
    }
    return 0;
}

void channels_close(struct channels *channels)
{
    for (enum channel channel = 0; channel < CHANNEL_COUNT; channel++)
        close_one(channels, channel);
}

int channels_reopen(struct channels *channels, enum channel channel, struct failure *why)
{
    if (!channels->sockets[channel].handle)
        return fail_plain(why, ENOTCONN, "the channels are closed");
    close_one(channels, channel);
    if (channel != CHANNEL_SHELL)
        return open_one(channels, channel, why);
    close_one(channels, CHANNEL_STDIN);
    renew_routing_id(channels);
    int r = open_one(channels, CHANNEL_SHELL, why);
    return r < 0 ? r : open_one(channels, CHANNEL_STDIN, why);
}

/* --- sending ------------------------------------------------------------------------------- */

int channels_send(struct channels *channels, enum channel channel, const struct message_body *body,
                  uint64_t *ret_number)
{
    if (!channels->sockets[channel].handle)
        return -ENOTCONN;
    struct message_name name = {.session = channels->session, .number = ++channels->last_number};
    _cleanup_draft_ struct message_draft draft = {0};
    int r = message_build(&channels->signatures, name, body, &draft);
    if (r == 0)
        r = socket_send(&channels->sockets[channel], draft.parts, MESSAGE_PARTS);
    channels->stirred[channel] = true;
    if (r < 0)
        return r;
    *ret_number = name.number;
    return 0;
}

void channels_hold_output(struct channels *channels, bool hold)
{
    channels->holding = hold;
    channels->stirred[CHANNEL_IOPUB] = true;
    /* Its descriptor stays readable for as long as nothing is taken in, and the loop would turn idly. */
    if (channels->sources[CHANNEL_IOPUB])
        (void)source_set_events(channels->sources[CHANNEL_IOPUB], hold ? 0 : EPOLLIN);
}

/* --- messages ------------------------------------------------------------------------------ */

/* A sandbox can send rubbish as fast as it likes: log ever more rarely. */
static void refuse(struct channels *channels, const char *reason)
{
    uint64_t refused = ++channels->refused;
    if ((refused & (refused - 1)) == 0)
        log_event(LOG_WARNING, "message of the kernel refused", "reason", reason, "so_far",
                  log_number((int64_t)refused), NULL);
}

static void take_in(struct channels *channels, enum channel channel, const struct parcel *parcel)
{
    struct failure why;
    _cleanup_message_ struct message message = {0};
    int r = parcel->oversized ? fail_plain(&why, EMSGSIZE, "too many parts or bytes")
                              : message_parse(parcel->parts, parcel->count, &channels->signatures,
                                              &message, &why);
    if (r == 0) {
        uint64_t number = message_number(message.parent_id, channels->session);
        return channels->events->message(channels->user, channel, &message, number);
    }
    refuse(channels, why.text);
    if (r == -EMSGSIZE)
        channels->events->damaged(channels->user);
}

static void drain(struct channels *channels, enum channel channel)
{
    uint64_t openings = channels->openings;
    size_t bytes = 0;
    for (int i = 0; i < BATCH_MESSAGES && bytes < BATCH_BYTES; i++) {
        if (channels->holding && channel == CHANNEL_IOPUB)
            return; /* and stays stirred */
        channels->stirred[channel] = false;
        if (!channels->sockets[channel].handle)
            return;
        _cleanup_parcel_ struct parcel parcel = {0};
        int r = socket_receive(&channels->sockets[channel], &parcel);
        if (r < 0)
            refuse(channels, zmq_strerror(-r));
        if (r <= 0)
            return;
        channels->stirred[channel] = true;
        bytes += parcel.bytes;
        take_in(channels, channel, &parcel);
        if (channels->openings != openings)
            return;
    }
}

void channels_pump(struct channels *channels)
{
    bool again = false;
    for (enum channel channel = 0; channel < CHANNEL_COUNT; channel++) {
        if (channels->stirred[channel])
            drain(channels, channel);
    }
    for (enum channel channel = 0; channel < CHANNEL_COUNT; channel++)
        again |= channels->stirred[channel] && !(channels->holding && channel == CHANNEL_IOPUB);
    if (again)
        loop_wake_in(channels->loop, 0);
}
