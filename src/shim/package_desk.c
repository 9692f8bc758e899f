#include "shim/package_desk.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/text.h"
#include "husk/limits.h"
#include "husk/package_protocol.h"

enum {
    SPEAK_MS = 10 * 1000,
    LEAVE_MS = 10 * 1000,
    PACE_MS =
        100, /* between two requests: each costs huskd something, and pip takes longer anyway */
    MAX_UNREAD_BYTES = 4 * MAX_INSTALL_OUTPUT
};

enum client_state {
    CLIENT_SPEAKING,
    CLIENT_QUEUED,
    CLIENT_WAITING,
    CLIENT_LEAVING
};

struct client {
    struct package_desk *desk;
    struct client *next;
    enum client_state state;
    uint64_t tag; /* for huskd */
    int fd;
    struct source *source;
    struct timer *timer;
    struct buffer in, out;
    char *request; /* QUEUED: what is to be passed on */
};

struct package_desk {
    struct loop *loop;
    struct connection *connection;
    int listener;
    struct source *source;
    struct client *clients; /* the newest first */
    struct timer *pace;
    size_t count;
    uint64_t last_tag;
};

static void let_go(struct client *client)
{
    struct package_desk *desk = client->desk;
    for (struct client **at = &desk->clients; *at; at = &(*at)->next) {
        if (*at == client) {
            *at = client->next;
            break;
        }
    }
    desk->count--;
    if (client->state == CLIENT_WAITING)
        connection_tell_tagged(desk->connection, SHIM_UNWANTED, client->tag, "", 0);
    source_remove(client->source);
    timer_remove(client->timer);
    close_fd(client->fd);
    buffer_free(&client->in);
    buffer_free(&client->out);
    free(client->request);
    free(client);
}

/* --- to the client ------------------------------------------------------------------------------ */

/* False: it is gone. */
static bool send_more(struct client *client)
{
    while (client->out.length > 0) {
        ssize_t n = write_some(client->fd, client->out.data, client->out.length);
        if (n == -EAGAIN)
            break;
        if (n <= 0) {
            let_go(client);
            return false;
        }
        buffer_consume(&client->out, (size_t)n);
    }
    if (client->out.length == 0 && client->state == CLIENT_LEAVING) {
        let_go(client);
        return false;
    }
    (void)source_set_events(client->source,
                            EPOLLRDHUP | EPOLLIN | (client->out.length ? (uint32_t)EPOLLOUT : 0));
    return true;
}

/* One that does not read is not waited for. */
static void tell(struct client *client, const char *text, size_t length, bool last)
{
    if (buffer_append(&client->out, text, length) < 0) {
        let_go(client);
        return;
    }
    if (last) {
        client->state = CLIENT_LEAVING;
        timer_arm(client->timer, LEAVE_MS);
    }
    (void)send_more(client);
}

static void refuse(struct client *client, const char *sentence)
{
    _cleanup_free_ char *text = must_format("e ERROR: %s\nx 1\n", sentence);
    tell(client, text, strlen(text), true);
}

/* --- from the client ---------------------------------------------------------------------------- */

/* What its lines say, as JSON for huskd. NULL: they make no sense. */
static char *read_request(char *text)
{
    json_auto_t *list = json_array();
    json_auto_t *request = json_pack("{s:O}", "requirements", list);
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (starts_with(line, "requirement ")) {
            if (json_array_append_new(list, json_string(line + strlen("requirement "))) < 0)
                return NULL; /* not UTF-8 */
        } else if (!strcmp(line, "option upgrade")) {
            (void)json_object_set_new(request, "upgrade", json_true());
        } else if (!strcmp(line, "option pre")) {
            (void)json_object_set_new(request, "pre", json_true());
        } else if (!strcmp(line, "option no-deps")) {
            (void)json_object_set_new(request, "no_deps", json_true());
        } else {
            return NULL;
        }
    }
    bool fits = json_array_size(list) > 0 && json_array_size(list) <= MAX_REQUIREMENTS;
    return fits ? json_dumps(request, JSON_COMPACT) : NULL;
}

/* The oldest that waits for its turn. */
static struct client *next_client(const struct package_desk *desk)
{
    struct client *found = NULL;
    for (struct client *client = desk->clients; client; client = client->next)
        found = client->state == CLIENT_QUEUED ? client : found;
    return found;
}

static void pass_on(struct package_desk *desk)
{
    struct client *client = timer_armed(desk->pace) ? NULL : next_client(desk);
    if (!client)
        return;
    _cleanup_free_ char *request = TAKE_POINTER(client->request);
    timer_arm(desk->pace, PACE_MS);
    if (!connection_present(desk->connection))
        return refuse(client, "the service is not there now; try again in a moment");
    client->tag = ++desk->last_tag;
    client->state = CLIENT_WAITING;
    connection_tell_tagged(desk->connection, SHIM_WANTED, client->tag, request, strlen(request));
}

static void next_turn(struct timer *timer _unused_, void *user)
{
    pass_on(user);
}

static void take_request(struct client *client)
{
    const char *text = buffer_text(&client->in);
    bool whole = text && strlen(text) == client->in.length;
    client->request = whole ? read_request((char *)(uintptr_t)text) : NULL;
    if (!client->request)
        return refuse(client, "this is not a request that can be understood");
    timer_disarm(client->timer);
    client->state = CLIENT_QUEUED;
    pass_on(client->desk);
}

static void readable(struct client *client)
{
    char block[4 * KIB];
    ssize_t n = read_some(client->fd, block, sizeof block);
    if (n == -EAGAIN)
        return;
    if (n <= 0)
        return let_go(client);
    if (client->state != CLIENT_SPEAKING)
        return; /* it has said enough */
    if (buffer_append(&client->in, block, (size_t)n) < 0)
        return refuse(client, "the request is too long");
    if (memmem(client->in.data, client->in.length, "\n\n", 2))
        take_request(client);
}

static void ready(struct source *source _unused_, uint32_t events, void *user)
{
    struct client *client = user;
    if ((events & EPOLLOUT) && !send_more(client))
        return;
    if (events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP))
        let_go(client);
    else if (events & EPOLLIN)
        readable(client);
}

static void too_slow(struct timer *timer _unused_, void *user)
{
    let_go(user);
}

static void accept_client(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct package_desk *desk = user;
    int fd = accept4(desk->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (desk->count >= MAX_PACKAGE_CLIENTS) {
        static const char text[] = "e ERROR: too many installs are going on at once\nx 1\n";
        (void)write_some(fd, text, strlen(text));
        close(fd);
        return;
    }
    struct client *client = must_alloc(sizeof *client);
    *client = (struct client){.desk = desk,
                              .next = desk->clients,
                              .fd = fd,
                              .in = BUFFER_LIMITED(MAX_REQUIREMENTS_BYTES),
                              .out = BUFFER_LIMITED(MAX_UNREAD_BYTES)};
    client->timer = timer_add(desk->loop, too_slow, client);
    client->source = source_add(desk->loop, fd, EPOLLIN | EPOLLRDHUP, ready, client);
    desk->clients = client;
    desk->count++;
    timer_arm(client->timer, SPEAK_MS);
    if (!client->source)
        let_go(client);
}

/* --- for the owner ------------------------------------------------------------------------------ */

struct package_desk *package_desk_new(struct loop *loop, struct connection *connection)
{
    (void)unlink(PACKAGE_SOCKET_NAME);
    int listener = unix_listen(PACKAGE_SOCKET_NAME, SOCK_STREAM);
    if (listener < 0)
        return NULL;
    struct package_desk *desk = must_alloc(sizeof *desk);
    *desk = (struct package_desk){.loop = loop, .connection = connection, .listener = listener};
    (void)set_nonblocking(listener, true);
    desk->pace = timer_add(loop, next_turn, desk);
    desk->source = source_add(loop, listener, EPOLLIN, accept_client, desk);
    return desk->source ? desk : package_desk_free(desk);
}

struct package_desk *package_desk_free(struct package_desk *desk)
{
    if (!desk)
        return NULL;
    while (desk->clients)
        let_go(desk->clients);
    source_remove(desk->source);
    timer_remove(desk->pace);
    close_fd(desk->listener);
    free(desk);
    return NULL;
}

void package_desk_say(struct package_desk *desk, uint64_t tag, const char *text, size_t length,
                      bool last)
{
    for (struct client *client = desk ? desk->clients : NULL; client; client = client->next) {
        if (client->tag == tag && client->state == CLIENT_WAITING)
            return tell(client, text, length, last);
    }
}

void package_desk_dismiss(struct package_desk *desk)
{
    for (struct client *client = desk ? desk->clients : NULL, *next; client; client = next) {
        next = client->next;
        if (client->state != CLIENT_WAITING)
            continue;
        client->state = CLIENT_SPEAKING; /* the new one need not hear of it */
        refuse(client, "the service was restarted meanwhile; try again");
    }
}
