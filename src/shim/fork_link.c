#include "shim/fork_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "husk/zygote_protocol.h"

struct fork_link {
    struct loop *loop;
    int requests;
    int first_report; /* until the first start; -1: no more */
    int report;       /* of the last one; -1: none */
    struct source *source;
    const struct fork_events *events;
    void *user;
};

void fork_link_forget(struct fork_link *link)
{
    link->source = source_remove(link->source);
    link->report = close_fd(link->report);
}

static void dispatch(struct fork_link *link, struct fork_report *report, int fd)
{
    const struct fork_events *events = link->events;
    _cleanup_close_ int pidfd = fd;
    report->text[sizeof report->text - 1] = '\0';
    switch (report->type) {
    case FORK_STARTED:
        return events->started(link->user, TAKE_DESCRIPTOR(pidfd));
    case FORK_JOINED:
        return events->joined(link->user, report->value);
    case FORK_FAILED:
        return events->failed(link->user, report->text);
    case FORK_EXITED:
        return events->exited(link->user, report->value);
    default:
        return; /* the process itself may say anything */
    }
}

static void readable(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct fork_link *link = user;
    struct fork_report report;
    int fd = -1;
    size_t count = 1;
    ssize_t n = receive_with_fds(link->report, &report, sizeof report, &fd, &count);
    if (n == -EAGAIN)
        return;
    if (n <= 0) {
        fork_link_forget(link);
        return link->events->lost(link->user);
    }
    if (n == sizeof report)
        dispatch(link, &report, count > 0 ? fd : -1);
    else if (count > 0)
        (void)close_fd(fd);
}

struct fork_link *fork_link_new(struct loop *loop, struct fork_sockets sockets,
                                const struct fork_events *events, void *user)
{
    struct fork_link *link = must_alloc(sizeof *link);
    *link = (struct fork_link){.loop = loop,
                               .requests = sockets.requests,
                               .first_report = sockets.first_report,
                               .report = -1,
                               .events = events,
                               .user = user};
    return link;
}

struct fork_link *fork_link_free(struct fork_link *link)
{
    if (!link)
        return NULL;
    fork_link_forget(link);
    (void)close_fd(link->first_report);
    free(link);
    return NULL;
}

static int compose(const struct fork_wish *wish, struct buffer *datagram)
{
    struct fork_order head = {.version = ZYGOTE_PROTOCOL_VERSION};
    size_t file_bytes = strlen(wish->connection_file) + 1;
    head.string_bytes = (uint32_t)(file_bytes + wish->environment_bytes);
    int r = buffer_append(datagram, &head, sizeof head);
    if (r == 0)
        r = buffer_append(datagram, wish->connection_file, file_bytes);
    return r == 0 ? buffer_append(datagram, wish->environment, wish->environment_bytes) : r;
}

/* Our end of a new report, the other end of which is on its way to the zygote. */
static int ask(const struct fork_link *link, struct failure *why)
{
    const struct fork_request request = {.version = ZYGOTE_PROTOCOL_VERSION};
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
        return fail(why, errno, "make a socket");
    _cleanup_close_ int own = pair[0], other = pair[1];
    int r = send_with_fds(link->requests, &request, sizeof request, &other, FORK_FROM_SHIM);
    return r < 0 ? fail(why, r, "ask for a kernel") : TAKE_DESCRIPTOR(own);
}

int fork_link_start(struct fork_link *link, const struct fork_wish *wish, struct failure *why)
{
    fork_link_forget(link);
    _cleanup_buffer_ struct buffer datagram =
        BUFFER_LIMITED(sizeof(struct fork_order) + MAX_INIT_STRINGS_BYTES);
    if (compose(wish, &datagram) < 0)
        return fail_plain(why, E2BIG, "the environment is too large");
    _cleanup_close_ int own = TAKE_DESCRIPTOR(link->first_report);
    if (own < 0)
        own = ask(link, why);
    if (own < 0)
        return own;
    /* It waits there until the kernel can take it. */
    int r = send_with_fds(own, datagram.data, datagram.length, &wish->output, 1);
    if (r < 0)
        return fail(why, r, "give the kernel its order");
    link->source = source_add(link->loop, own, EPOLLIN, readable, link);
    if (!link->source)
        return fail(why, errno, "wait for a kernel");
    link->report = TAKE_DESCRIPTOR(own);
    return 0;
}
