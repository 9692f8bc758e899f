#include "shim/init_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "husk/init_protocol.h"

enum {
    NUMBER_BITS = 56 /* of a tag; those above are the client */
};

struct init_link {
    int socket;
    struct source *source;
    struct listener {
        const struct init_events *events;
        void *user;
    } listeners[INIT_CLIENTS];
};

static uint64_t tag_of(struct init_name name)
{
    return (uint64_t)name.client << NUMBER_BITS | name.number;
}

static void dispatch(struct init_link *link, const struct init_message *message, int fd)
{
    _cleanup_close_ int pidfd = fd;
    uint64_t client = message->tag >> NUMBER_BITS;
    uint64_t number = message->tag & ((1ULL << NUMBER_BITS) - 1);
    if (message->type == INIT_READY || client >= INIT_CLIENTS || !link->listeners[client].events)
        return;
    const struct listener *to = &link->listeners[client];
    switch (message->type) {
    case INIT_STARTED:
        return to->events->started(to->user, number, message->value, TAKE_DESCRIPTOR(pidfd));
    case INIT_FAILED:
        return to->events->failed(to->user, number, (enum init_step)message->flags, message->value);
    case INIT_EXITED:
        return to->events->exited(to->user, number, message->value);
    default:
        log_event(LOG_WARNING, "init sent something unknown", "type", log_number(message->type),
                  NULL);
    }
}

static void container_gone(struct init_link *link)
{
    link->source = source_remove(link->source);
    for (size_t i = 0; i < INIT_CLIENTS; i++) {
        const struct listener *to = &link->listeners[i];
        if (to->events && to->events->gone)
            to->events->gone(to->user);
    }
}

static void readable(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct init_link *link = user;
    struct init_message message;
    int fd = -1;
    size_t count = 1;
    ssize_t n = receive_with_fds(link->socket, &message, sizeof message, &fd, &count);
    if (n == -EAGAIN)
        return;
    if (n == 0 || n == -ECONNRESET)
        return container_gone(link);
    if (n != sizeof message || message.version != INIT_PROTOCOL_VERSION) {
        if (n >= 0 && count > 0)
            close_fd(fd);
        log_event(LOG_WARNING, "init sent something malformed", "bytes", log_number(n), NULL);
        return;
    }
    dispatch(link, &message, count > 0 ? fd : -1);
}

struct init_link *init_link_new(struct loop *loop, int socket)
{
    struct init_link *link = must_alloc(sizeof *link);
    link->socket = socket;
    link->source = source_add(loop, socket, EPOLLIN, readable, link);
    if (!link->source || set_nonblocking(socket, true) < 0)
        return init_link_free(link);
    return link;
}

void init_link_listen(struct init_link *link, enum init_client client,
                      const struct init_events *events, void *user)
{
    link->listeners[client] = (struct listener){.events = events, .user = user};
}

struct init_link *init_link_free(struct init_link *link)
{
    if (!link)
        return NULL;
    source_remove(link->source);
    free(link);
    return NULL;
}

int init_link_start(struct init_link *link, struct init_name name,
                    const struct init_command *command, struct failure *why)
{
    _cleanup_buffer_ struct buffer datagram = BUFFER_LIMITED(INIT_DATAGRAM_BYTES);
    struct init_message head = {.version = INIT_PROTOCOL_VERSION,
                                .type = INIT_START,
                                .tag = tag_of(name),
                                .flags = (command->directory ? INIT_IN : 0U) |
                                         (command->apart ? INIT_APART : 0U)};
    int r = buffer_append(&datagram, &head, sizeof head);
    if (r == 0 && command->directory)
        r = buffer_append(&datagram, command->directory, strlen(command->directory) + 1);
    for (; r == 0 && command->arguments[head.argument_count]; head.argument_count++) {
        const char *argument = command->arguments[head.argument_count];
        r = buffer_append(&datagram, argument, strlen(argument) + 1);
    }
    if (r == 0)
        r = buffer_append(&datagram, command->environment, command->environment_bytes);
    if (r < 0)
        return fail_plain(why, E2BIG, "arguments and environment are too large");
    head.string_bytes = (uint32_t)(datagram.length - sizeof head);
    memcpy(datagram.data, &head, sizeof head);
    r = send_with_fds(link->socket, datagram.data, datagram.length, command->stdio,
                      ARRAY_LENGTH(command->stdio));
    return r < 0 ? fail(why, r, "ask init to start %.80s", command->arguments[0]) : 0;
}

static int send_head(struct init_link *link, struct init_message message)
{
    message.version = INIT_PROTOCOL_VERSION;
    return send_with_fds(link->socket, &message, sizeof message, NULL, 0);
}

int init_link_signal(struct init_link *link, struct init_name name, int signal)
{
    return send_head(
        link, (struct init_message){.type = INIT_SIGNAL, .tag = tag_of(name), .value = signal});
}

int init_link_adopt(struct init_link *link, struct init_name name, int pid)
{
    return send_head(link,
                     (struct init_message){.type = INIT_ADOPT, .tag = tag_of(name), .value = pid});
}

int init_link_kill_all(struct init_link *link)
{
    return send_head(link, (struct init_message){.type = INIT_KILL_ALL});
}

int init_link_kill_others(struct init_link *link)
{
    return send_head(link, (struct init_message){.type = INIT_KILL_OTHERS});
}

int init_link_forget(struct init_link *link, struct init_name name)
{
    return send_head(link, (struct init_message){.type = INIT_FORGET, .tag = tag_of(name)});
}
