#include "keeper/keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "husk/version.h"
#include "keeper/cgroup.h"
#include "keeper/fetch_start.h"
#include "keeper/id_pool.h"
#include "keeper/keeper_request.h"
#include "keeper/shim_start.h"

enum {
    OVERFLOW_ID = 65534 /* how ids that P does not have appear in it */
};

/* What waits for huskd to take it. */
struct outgoing {
    struct keeper_message message;
    int fd; /* goes with it, ours until then; -1: none */
};

/* A request of huskd that waits for its container. */
struct pending {
    struct pending *next;
    struct id id;
    uint64_t tag;
    uint32_t type; /* KEEPER_CREATE or KEEPER_REMOVE */
};

struct keeper {
    struct container_host *host;
    struct container *containers;
    struct pending *pending;
    struct id_pool *ids;
    int listen_fd;
    int client; /* huskd, -1: none */
    struct source *client_source;
    struct buffer out; /* struct outgoing: what huskd has not taken yet */
    size_t out_fds;    /* how many of them hold a descriptor */
    struct id trial;
    bool stopping;
    uint64_t stop_tag;
};

static struct container *find(const struct keeper *keeper, struct id id)
{
    struct container *container = keeper->containers;
    while (container && !id_equal(container_plan(container)->id, id))
        container = container_next(container);
    return container;
}

/* --- talking to huskd
 * ---------------------------------------------------------------------------------- */

/* The descriptors of the first `count` messages are gone, or nobody wants them. */
static void forget_out(struct keeper *keeper, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct outgoing message;
        memcpy(&message, keeper->out.data + i * sizeof message, sizeof message);
        keeper->out_fds -= message.fd >= 0;
        close_fd(message.fd);
    }
    buffer_consume(&keeper->out, count * sizeof(struct outgoing));
}

static void drop_client(struct keeper *keeper)
{
    keeper->client_source = source_remove(keeper->client_source);
    keeper->client = close_fd(keeper->client);
    forget_out(keeper, keeper->out.length / sizeof(struct outgoing));
    while (keeper->pending) {
        struct pending *pending = keeper->pending;
        keeper->pending = pending->next;
        /* Nobody will hear that it was made, and the next huskd may ask for its list before it is. */
        struct container *container = find(keeper, pending->id);
        if (pending->type == KEEPER_CREATE && container)
            container_remove(container);
        free(pending);
    }
}

/* The socket takes no descriptors when too many are under way: then huskd is told that. */
static int send_first(struct keeper *keeper)
{
    struct outgoing first;
    memcpy(&first, keeper->out.data, sizeof first);
    int r = send_with_fds(keeper->client, &first.message, sizeof first.message, &first.fd,
                          first.fd >= 0);
    if (r != -ETOOMANYREFS)
        return r;
    first.message.status = r;
    return send_with_fds(keeper->client, &first.message, sizeof first.message, NULL, 0);
}

static void flush(struct keeper *keeper)
{
    while (keeper->client >= 0 && keeper->out.length > 0) {
        int r = send_first(keeper);
        if (r == -EAGAIN)
            break;
        if (r < 0) {
            drop_client(keeper);
            return;
        }
        forget_out(keeper, 1);
    }
    if (keeper->client_source)
        (void)source_set_events(keeper->client_source,
                                keeper->out.length > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* Takes `fd`. */
static void say_with(struct keeper *keeper, const struct keeper_message *message, int fd)
{
    struct outgoing last = {.message = *message, .fd = fd};
    last.message.version = KEEPER_PROTOCOL_VERSION;
    if (keeper->client < 0) {
        close_fd(fd);
        return;
    }
    if (buffer_append(&keeper->out, &last, sizeof last) < 0) {
        close_fd(fd);
        drop_client(keeper);
        return;
    }
    keeper->out_fds += fd >= 0;
    flush(keeper);
}

static void say(struct keeper *keeper, const struct keeper_message *message)
{
    say_with(keeper, message, -1);
}

static void answer(struct keeper *keeper, const struct keeper_message *request, int status,
                   const char *text)
{
    struct keeper_message message = {.type = request->type, .tag = request->tag, .status = status};
    memcpy(message.id, request->id, sizeof message.id);
    (void)snprintf(message.text, sizeof message.text, "%s", text);
    say(keeper, &message);
}

static void wait_for(struct keeper *keeper, const struct keeper_message *request, struct id id)
{
    struct pending *pending = must_alloc(sizeof *pending);
    *pending = (struct pending){
        .id = id, .tag = request->tag, .type = request->type, .next = keeper->pending};
    keeper->pending = pending;
}

/* Answer everything of this type that waits for the container. True if anything did. */
static bool answer_pending(struct keeper *keeper, uint32_t type, struct id id, int status,
                           const char *text)
{
    bool any = false;
    for (struct pending **link = &keeper->pending; *link;) {
        struct pending *pending = *link;
        if (pending->type != type || !id_equal(pending->id, id)) {
            link = &pending->next;
            continue;
        }
        *link = pending->next;
        struct keeper_message request = {.type = type, .tag = pending->tag};
        memcpy(request.id, id.bytes, sizeof request.id);
        free(pending);
        any = true;
        answer(keeper, &request, status, text);
        /* The answer may have failed and dropped the whole list. */
        link = &keeper->pending;
    }
    return any;
}

/* --- what happens to containers
 * ---------------------------------------------------------------------------- */

static void tell_anchor(const struct keeper *keeper, enum stored_type type, const char *text)
{
    struct stored_message message = {.type = type};
    (void)snprintf(message.text, sizeof message.text, "%s", text);
    (void)stored_send(keeper->host->store_fd, &message, NULL, 0);
}

static void container_made(struct container *container, const struct failure *why, void *user)
{
    struct keeper *keeper = user;
    struct id id = container_plan(container)->id;
    if (!container_plan(container)->trial) {
        (void)answer_pending(keeper, KEEPER_CREATE, id, why ? -why->code : 0, why ? why->text : "");
        return;
    }
    if (why) {
        tell_anchor(keeper, STORED_FAILED, why->text);
        loop_stop(keeper->host->loop, 1);
        return;
    }
    container_remove(container);
}

static void accept_client(struct source *source, uint32_t events, void *user);

static void serve(struct keeper *keeper)
{
    if (!source_add(keeper->host->loop, keeper->listen_fd, EPOLLIN, accept_client, keeper)) {
        tell_anchor(keeper, STORED_FAILED, "the keeper cannot watch its socket");
        loop_stop(keeper->host->loop, 1);
        return;
    }
    tell_anchor(keeper, STORED_READY, "");
}

static void stop_if_empty(struct keeper *keeper)
{
    if (!keeper->stopping || keeper->containers)
        return;
    struct keeper_message request = {.type = KEEPER_STOP, .tag = keeper->stop_tag};
    answer(keeper, &request, 0, "");
    tell_anchor(keeper, STORED_STOP, "");
}

static void container_gone(struct container *container, void *user)
{
    struct keeper *keeper = user;
    const struct container_plan *plan = container_plan(container);
    for (struct container *at = keeper->containers, *previous = NULL; at;
         previous = at, at = container_next(at)) {
        if (at != container)
            continue;
        if (previous)
            container_set_next(previous, container_next(at));
        else
            keeper->containers = container_next(at);
        break;
    }
    id_pool_give_back(keeper->ids, plan->uid);
    if (plan->trial) {
        serve(keeper);
        return;
    }
    if (!answer_pending(keeper, KEEPER_REMOVE, plan->id, 0, "")) {
        struct keeper_message event = {.type = KEEPER_GONE};
        memcpy(event.id, plan->id.bytes, sizeof event.id);
        say(keeper, &event);
    }
    stop_if_empty(keeper);
}

static int make_container(struct keeper *keeper, struct container_plan *plan, struct failure *why)
{
    struct container *container;
    if (id_pool_take(keeper->ids, &plan->uid) < 0)
        return fail_plain(why, EAGAIN, "every id for sandboxes is in use");
    int r = container_new(keeper->host, plan, &container, why);
    if (r < 0) {
        id_pool_give_back(keeper->ids, plan->uid);
        return r;
    }
    container_set_next(container, keeper->containers);
    keeper->containers = container;
    return 0;
}

/* --- requests
 * ------------------------------------------------------------------------------------------------
 */

static void on_hello(struct keeper *keeper, const struct keeper_request *question)
{
    answer(keeper, &question->message, 0, HUSK_VERSION);
}

static bool limits_are_sane(const struct sandbox_limits *limits)
{
    return limits->memory_bytes >= (uint64_t)MIN_MEMORY_MB * MIB &&
           limits->memory_bytes <= (uint64_t)MAX_MEMORY_MB * MIB &&
           limits->disk_bytes >= (uint64_t)MIN_DISK_MB * MIB &&
           limits->disk_bytes <= (uint64_t)MAX_DISK_MB * MIB && limits->cpu_millis >= 10 &&
           limits->cpu_millis <= MAX_CPUS * 1000 && limits->pids >= MIN_PIDS &&
           limits->pids <= MAX_PIDS;
}

static void on_create(struct keeper *keeper, const struct keeper_request *question)
{
    const struct keeper_message *request = &question->message;
    struct container_plan plan = {.limits = request->limits};
    struct failure why = {0};
    memcpy(plan.id.bytes, request->id, sizeof plan.id.bytes);
    if (keeper->stopping || id_is_null(plan.id) || !limits_are_sane(&plan.limits) ||
        find(keeper, plan.id)) {
        answer(keeper, request, -EINVAL, "no such sandbox can be made");
        return;
    }
    wait_for(keeper, request, plan.id);
    int r = make_container(keeper, &plan, &why);
    if (r < 0)
        (void)answer_pending(keeper, KEEPER_CREATE, plan.id, r, why.text);
}

static void on_remove(struct keeper *keeper, const struct keeper_request *question)
{
    const struct keeper_message *request = &question->message;
    struct id id;
    memcpy(id.bytes, request->id, sizeof id.bytes);
    struct container *container = find(keeper, id);
    if (!container) {
        answer(keeper, request, -ENOENT, "there is no such sandbox");
        return;
    }
    wait_for(keeper, request, id);
    container_remove(container);
}

static void on_usage(struct keeper *keeper, const struct keeper_request *question)
{
    const struct keeper_message *request = &question->message;
    struct id wanted;
    memcpy(wanted.bytes, request->id, sizeof wanted.bytes);
    struct keeper_message last = {.type = KEEPER_USAGE, .tag = request->tag, .status = -ENOENT};
    for (const struct container *container = keeper->containers; container;
         container = container_next(container)) {
        const struct container_plan *plan = container_plan(container);
        if (!container_is_running(container) || plan->trial ||
            (!id_is_null(wanted) && !id_equal(plan->id, wanted)))
            continue;
        if (last.status == 0) {
            last.flags = KEEPER_MORE;
            say(keeper, &last);
        }
        last = (struct keeper_message){
            .type = KEEPER_USAGE, .tag = request->tag, .limits = plan->limits};
        memcpy(last.id, plan->id.bytes, sizeof last.id);
        container_usage(container, &last.usage);
    }
    say(keeper, &last);
}

static void on_adapt(struct keeper *keeper, const struct keeper_request *question)
{
    const struct keeper_message *request = &question->message;
    struct keeper_message message = {.type = KEEPER_ADAPT, .tag = request->tag};
    struct failure why = {0};
    struct id id;
    bool unchanged = true;
    memcpy(id.bytes, request->id, sizeof id.bytes);
    memcpy(message.id, request->id, sizeof message.id);
    struct container *container = find(keeper, id);
    if (!container)
        message.status = fail_plain(&why, ENOENT, "there is no such sandbox");
    else if (!limits_are_sane(&request->limits))
        message.status = fail_plain(&why, EINVAL, "no sandbox can have such limits");
    else
        message.status = container_adapt(container, &request->limits, &unchanged, &why);
    message.flags = message.status < 0 && unchanged ? KEEPER_UNCHANGED : 0;
    (void)snprintf(message.text, sizeof message.text, "%s", why.text);
    say(keeper, &message);
}

static void on_stop(struct keeper *keeper, const struct keeper_request *question)
{
    const struct keeper_message *request = &question->message;
    keeper->stopping = true;
    keeper->stop_tag = request->tag;
    for (struct container *container = keeper->containers; container;
         container = container_next(container))
        container_remove(container);
    stop_if_empty(keeper);
}

/* Everything about files: the bytes of the path are for the kernel alone to understand. Gives a descriptor, 0 or -errno. */
static int do_file(struct container *container, const struct keeper_request *question,
                   uint32_t *flags)
{
    bool replaced = false;
    int r;
    switch (question->message.type) {
    case KEEPER_OPEN:
        return container_open_file(container, question->path);
    case KEEPER_MAKE_FILE:
        return container_make_file(container);
    case KEEPER_PLACE:
        r = container_place_file(container, question->fd, question->path, &replaced);
        *flags = replaced ? KEEPER_REPLACED : 0;
        return r;
    default:
        return container_port(container, question->path, question->fd);
    }
}

static void on_file(struct keeper *keeper, const struct keeper_request *question)
{
    const struct keeper_message *request = &question->message;
    struct keeper_message message = {.type = request->type, .tag = request->tag};
    struct id id;
    memcpy(id.bytes, request->id, sizeof id.bytes);
    memcpy(message.id, id.bytes, sizeof message.id);
    struct container *container = find(keeper, id);
    int fd = -ENOENT;
    if (request->type != KEEPER_MAKE_FILE && request->path_bytes == 0)
        fd = -EINVAL;
    else if (keeper->out_fds >= MAX_WAITING_OPENS)
        fd = -EMFILE;
    else if (container)
        fd = do_file(container, question, &message.flags);
    message.status = fd < 0 ? fd : 0;
    say_with(keeper, &message, fd > 0 ? fd : -1);
}

static void on_fetch(struct keeper *keeper, const struct keeper_request *question)
{
    struct failure why = {0};
    struct keeper_message message = {.type = KEEPER_FETCH, .tag = question->message.tag};
    int fd = keeper->out_fds >= MAX_WAITING_OPENS
                 ? fail_plain(&why, EMFILE, "too many descriptors wait for huskd")
                 : fetch_start(keeper->host, &why);
    message.status = fd < 0 ? fd : 0;
    (void)snprintf(message.text, sizeof message.text, "%s", why.text);
    say_with(keeper, &message, fd < 0 ? -1 : fd);
}

static void handle(struct keeper *keeper, const struct keeper_request *question)
{
    static void (*const handlers[])(struct keeper *, const struct keeper_request *) = {
        [KEEPER_HELLO] = on_hello, [KEEPER_CREATE] = on_create,  [KEEPER_REMOVE] = on_remove,
        [KEEPER_USAGE] = on_usage, [KEEPER_STOP] = on_stop,      [KEEPER_OPEN] = on_file,
        [KEEPER_ADAPT] = on_adapt, [KEEPER_MAKE_FILE] = on_file, [KEEPER_PLACE] = on_file,
        [KEEPER_PORT] = on_file,   [KEEPER_FETCH] = on_fetch};
    const struct keeper_message *request = &question->message;
    if (request->version != KEEPER_PROTOCOL_VERSION)
        answer(keeper, request, -EPROTO, "this keeper speaks another version of the messages");
    else if (request->type < ARRAY_LENGTH(handlers) && handlers[request->type])
        handlers[request->type](keeper, question);
    else
        answer(keeper, request, -ENOSYS, "unknown request");
}

static void client_ready(struct source *source _unused_, uint32_t events, void *user)
{
    struct keeper *keeper = user;
    if (events & EPOLLOUT)
        flush(keeper);
    if (keeper->client < 0 || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    struct keeper_request question;
    size_t datagram = offsetof(struct keeper_request, fd), count = 1;
    ssize_t n = receive_with_fds(keeper->client, &question, datagram, &question.fd, &count);
    if (n == -EAGAIN)
        return;
    _cleanup_close_ int fd = question.fd = n > 0 && count == 1 ? question.fd : -1;
    if (n <= 0 || !keeper_request_check(&question, (size_t)n)) {
        drop_client(keeper);
        return;
    }
    handle(keeper, &question);
}

static void accept_client(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct keeper *keeper = user;
    int fd = accept4(keeper->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    struct ucred peer;
    socklen_t size = sizeof peer;
    bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    /* Root of the host is not an id of P and shows as the overflow id: it comes before huskd gives
     * up its rights. */
    known = known && (peer.uid == keeper->host->client || peer.uid == 0 || peer.uid == OVERFLOW_ID);
    if (!known) {
        close(fd);
        return;
    }
    drop_client(keeper);
    keeper->client = fd;
    keeper->client_source = source_add(keeper->host->loop, fd, EPOLLIN, client_ready, keeper);
    if (!keeper->client_source)
        drop_client(keeper);
}

/* --- start
 * ------------------------------------------------------------------------------------------------------
 */

struct keeper *keeper_new(struct container_host *host, uid_t first_id, unsigned id_count)
{
    struct keeper *keeper = must_alloc(sizeof *keeper);
    keeper->host = host;
    keeper->client = -1;
    keeper->ids = id_pool_new(first_id, id_count);
    keeper->out = BUFFER_LIMITED(2 * (size_t)MAX_SANDBOXES * sizeof(struct outgoing));
    host->made = container_made;
    host->gone = container_gone;
    host->user = keeper;
    return keeper;
}

void keeper_restore(struct keeper *keeper, const struct stored_message *message, const int *fds,
                    size_t count)
{
    struct container_plan plan = {.limits = message->limits, .uid = message->uid};
    memcpy(plan.id.bytes, message->id, sizeof plan.id.bytes);
    id_pool_claim(keeper->ids, plan.uid);
    struct container *container = container_restore(keeper->host, &plan, fds, count);
    container_set_next(container, keeper->containers);
    keeper->containers = container;
}

/* Cgroups and sockets of containers that a former keeper began and nobody knows. */
static void sweep(const struct keeper *keeper, const char *directory, bool cgroups)
{
    DIR *entries = opendir(directory);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        struct id id;
        if (id_parse(entry->d_name, &id) < 0 || find(keeper, id))
            continue;
        log_event(LOG_WARNING, "removing what a former keeper left", "sandbox", entry->d_name,
                  NULL);
        if (cgroups) {
            struct cgroup cgroup;
            cgroup_reopen(&keeper->host->cgroups, id, &cgroup);
            (void)cgroup_remove(&cgroup);
        } else {
            shim_socket_remove(keeper->host, id);
        }
    }
    if (entries)
        closedir(entries);
}

void keeper_begin(struct keeper *keeper, int listen_fd)
{
    char shims[PATH_MAX];
    struct failure why = {0};
    keeper->listen_fd = listen_fd;
    (void)snprintf(shims, sizeof shims, "%s/%s", keeper->host->state, SHIM_SOCKET_DIR);
    sweep(keeper, shims, false);
    for (int i = 0; i < keeper->host->cgroups.count; i++)
        sweep(keeper, keeper->host->cgroups.hierarchies[i].path, true);
    struct container_plan plan = {.id = id_new(),
                                  .trial = true,
                                  .limits = {.memory_bytes = (uint64_t)MIN_MEMORY_MB * MIB,
                                             .disk_bytes = (uint64_t)MIN_DISK_MB * MIB,
                                             .cpu_millis = 1000,
                                             .pids = MIN_PIDS}};
    if (make_container(keeper, &plan, &why) < 0) {
        tell_anchor(keeper, STORED_FAILED, why.text);
        loop_stop(keeper->host->loop, 1);
    }
}
