#include "huskd/keeper_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "husk/version.h"

enum {
    HELLO_MS = 10 * 1000,
    FIRST_RETRY_MS = 20,
    SLOWEST_RETRY_MS = 1000,
    ANSWER_MS = 60 * 1000, /* longer than any answer takes on a busy machine */
    ABSENT_MS = 10 * 1000, /* for a question asked while there is no keeper */
    OVERDUE_STEP_MS = 1000
};

struct question {
    struct question *next;
    struct keeper_message message;
    uint64_t due; /* when to give up */
    bool sent;
    keeper_callback callback;    /* one of these three; all NULL: forgotten */
    keeper_open_callback opened; /* KEEPER_OPEN, KEEPER_FETCH */
    keeper_file_callback on_file;
    char *path; /* of questions about files, or NULL */
    int fd;     /* goes with it; -1: none */
    void *user;
};

struct keeper_client {
    struct loop *loop;
    char *path;
    struct keeper_events events;
    int fd; /* -1: not connected */
    struct source *source;
    struct timer *retry;
    struct timer *overdue;
    uint64_t retry_ms;
    uint64_t last_tag;
    struct question *questions; /* in the order they were asked */
};

static void try_send(struct keeper_client *client);
static void connection_lost(struct keeper_client *client, const char *reason);

/* --- hello, blocking ----------------------------------------------------------------------------
 */

/* News of sandboxes that ended may come before the answer; who starts asks for the list afterwards. */
static int receive_hello(int fd, struct keeper_message *answer, struct failure *why)
{
    do {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = poll(&wait, 1, HELLO_MS);
        if (ready < 0)
            return fail(why, errno, "wait for the keeper");
        if (ready == 0)
            return fail_plain(why, ETIMEDOUT, "the keeper is there but does not answer");
        ssize_t got = recv(fd, answer, sizeof *answer, 0);
        if (got < 0)
            return fail(why, errno, "receive from the keeper");
        if (got == 0)
            return fail(why, ECONNRESET, "receive from the keeper");
        if (got != sizeof *answer || answer->version != KEEPER_PROTOCOL_VERSION)
            return fail_plain(why, EPROTO,
                              "the keeper that is running speaks another version of Husk. Stop its "
                              "sandboxes with the huskd it came with, then start again");
    } while (answer->type != KEEPER_HELLO);
    answer->text[KEEPER_TEXT_SIZE - 1] = '\0';
    return 0;
}

int keeper_connect(const char *path, char version[KEEPER_TEXT_SIZE], struct failure *why)
{
    _cleanup_close_ int fd = unix_connect(path, SOCK_SEQPACKET | SOCK_NONBLOCK);
    if (fd < 0)
        return fail(why, fd, "connect to %.120s", path);
    struct keeper_message message = {.version = KEEPER_PROTOCOL_VERSION, .type = KEEPER_HELLO};
    (void)snprintf(message.text, sizeof message.text, "%s", HUSK_VERSION);
    int r = send_with_fds(fd, &message, sizeof message, NULL, 0);
    if (r < 0)
        return fail(why, r == -EPIPE ? -ECONNRESET : r, "send to the keeper");
    r = receive_hello(fd, &message, why);
    if (r < 0)
        return r;
    memcpy(version, message.text, KEEPER_TEXT_SIZE);
    return TAKE_DESCRIPTOR(fd);
}

/* --- questions ----------------------------------------------------------------------------------
 */

static struct question **find(struct keeper_client *client, uint64_t tag)
{
    for (struct question **at = &client->questions; *at; at = &(*at)->next) {
        if ((*at)->message.tag == tag)
            return at;
    }
    return NULL;
}

static void question_free(struct question *question)
{
    close_fd(question->fd);
    free(question->path);
    free(question);
}

/* Take the question out, then answer it: the callback may ask and forget as it likes. Takes `fd`. */
static void answer(struct question **at, const struct keeper_message *message, int fd)
{
    struct question *question = *at;
    *at = question->next;
    if (question->opened) {
        int missing = message->status < 0 ? message->status : -EPROTO;
        question->opened(fd < 0 ? missing : fd, question->user);
        fd = -1;
    } else if (question->on_file) {
        question->on_file(message, fd, question->user);
        fd = -1;
    } else if (question->callback) {
        question->callback(message, question->user);
    }
    close_fd(fd);
    question_free(question);
}

static void answer_failed(struct question **at, int status, const char *text)
{
    struct keeper_message message = (*at)->message;
    message.status = status;
    message.flags = 0;
    (void)snprintf(message.text, sizeof message.text, "%s", text);
    answer(at, &message, -1);
}

static struct question *question_new(struct keeper_client *client,
                                     const struct keeper_message *message, keeper_callback callback,
                                     void *user)
{
    struct question *question = must_alloc(sizeof *question);
    *question =
        (struct question){.message = *message, .callback = callback, .fd = -1, .user = user};
    question->message.version = KEEPER_PROTOCOL_VERSION;
    question->message.tag = ++client->last_tag;
    question->due = now_ms() + (client->fd >= 0 ? ANSWER_MS : ABSENT_MS);
    if (!timer_armed(client->overdue))
        timer_arm(client->overdue, OVERDUE_STEP_MS);
    return question;
}

static uint64_t add(struct keeper_client *client, struct question *question)
{
    uint64_t tag = question->message.tag;
    struct question **at = &client->questions;
    while (*at)
        at = &(*at)->next;
    *at = question;
    try_send(client);
    return tag;
}

uint64_t keeper_client_ask(struct keeper_client *client, const struct keeper_message *question,
                           keeper_callback callback, void *user)
{
    return add(client, question_new(client, question, callback, user));
}

uint64_t keeper_client_open(struct keeper_client *client, struct id id, const char *path,
                            keeper_open_callback callback, void *user)
{
    size_t length = strlen(path);
    husk_assert(length > 0 && length <= MAX_FILE_PATH_BYTES);
    struct keeper_message message = {.type = KEEPER_OPEN, .path_bytes = (uint32_t)length};
    memcpy(message.id, id.bytes, sizeof message.id);
    struct question *question = question_new(client, &message, NULL, user);
    question->opened = callback;
    question->path = must_copy(path);
    return add(client, question);
}

uint64_t keeper_client_ask_file(struct keeper_client *client, const struct keeper_message *question,
                                const char *path, int fd, keeper_file_callback callback, void *user)
{
    size_t length = path ? strlen(path) : 0;
    husk_assert(length <= MAX_FILE_PATH_BYTES);
    struct question *file = question_new(client, question, NULL, user);
    file->message.path_bytes = (uint32_t)length;
    file->on_file = callback;
    file->path = path ? must_copy(path) : NULL;
    file->fd = fd;
    return add(client, file);
}

uint64_t keeper_client_fetch(struct keeper_client *client, keeper_open_callback callback,
                             void *user)
{
    struct keeper_message message = {.type = KEEPER_FETCH};
    struct question *question = question_new(client, &message, NULL, user);
    question->opened = callback;
    return add(client, question);
}

void keeper_client_forget(struct keeper_client *client, uint64_t tag)
{
    struct question **at = find(client, tag);
    if (!at)
        return;
    (*at)->callback = NULL;
    (*at)->opened = NULL;
    (*at)->on_file = NULL;
}

bool keeper_client_connected(const struct keeper_client *client)
{
    return client->fd >= 0;
}

static void give_up_overdue(struct timer *timer, void *user)
{
    struct keeper_client *client = user;
    uint64_t now = now_ms();
    /* A callback may change the list, so it is looked at from the start after each. */
    for (struct question **at = &client->questions; *at;) {
        if ((*at)->due > now) {
            at = &(*at)->next;
        } else {
            answer_failed(at, -ETIMEDOUT, "the keeper does not answer");
            at = &client->questions;
        }
    }
    if (client->questions)
        timer_arm(timer, OVERDUE_STEP_MS);
}

/* --- the connection -----------------------------------------------------------------------------
 */

static void watch(struct keeper_client *client, bool writable)
{
    if (client->source)
        (void)source_set_events(client->source, writable ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static int send_question(int fd, const struct question *question)
{
    struct keeper_request request = {.message = question->message};
    size_t length = question->message.path_bytes;
    if (length)
        memcpy(request.path, question->path, length);
    return send_with_fds(fd, &request, sizeof request.message + length, &question->fd,
                         question->fd >= 0);
}

static void try_send(struct keeper_client *client)
{
    for (struct question *question = client->questions; question && client->fd >= 0;
         question = question->next) {
        if (question->sent)
            continue;
        int r = send_question(client->fd, question);
        if (r == -EAGAIN) {
            watch(client, true);
            return;
        }
        /* A broken connection also shows when reading, and is handled there: not from inside a call
         * of ours. */
        if (r < 0)
            return;
        question->sent = true;
    }
    watch(client, false);
}

/* Takes `fd`, which only answers about files and to KEEPER_FETCH have. */
static void handle(struct keeper_client *client, struct keeper_message *message, int fd)
{
    _cleanup_close_ int own = fd;
    message->text[KEEPER_TEXT_SIZE - 1] = '\0';
    if (message->type == KEEPER_GONE) {
        struct id id;
        memcpy(id.bytes, message->id, sizeof id.bytes);
        client->events.gone(id, client->events.user);
        return;
    }
    struct question **at = find(client, message->tag);
    if (!at || (*at)->message.type != message->type)
        return;
    if (message->type == KEEPER_USAGE && message->flags & KEEPER_MORE) {
        if ((*at)->callback)
            (*at)->callback(message, (*at)->user);
        return;
    }
    answer(at, message, TAKE_DESCRIPTOR(own));
}

static void ready(struct source *source _unused_, uint32_t events, void *user)
{
    struct keeper_client *client = user;
    if (events & EPOLLOUT)
        try_send(client);
    while (client->fd >= 0) {
        struct keeper_message message;
        int fd = -1;
        size_t descriptors = 1;
        ssize_t got = receive_with_fds(client->fd, &message, sizeof message, &fd, &descriptors);
        if (got == -EAGAIN)
            return;
        if (got == sizeof message && message.version == KEEPER_PROTOCOL_VERSION) {
            handle(client, &message, descriptors ? fd : -1);
            continue;
        }
        if (descriptors)
            close_fd(fd);
        connection_lost(client, got == 0  ? "it ended"
                                : got < 0 ? strerror((int)-got)
                                          : "it speaks another version");
    }
}

static void connection_lost(struct keeper_client *client, const char *reason)
{
    client->source = source_remove(client->source);
    client->fd = close_fd(client->fd);
    client->retry_ms = FIRST_RETRY_MS;
    timer_arm(client->retry, client->retry_ms);
    for (struct question **at = &client->questions; *at;) {
        if ((*at)->message.type == KEEPER_REMOVE || !(*at)->sent) {
            (*at)->sent = false;
            at = &(*at)->next;
        } else {
            answer_failed(at, -ECONNRESET, "the keeper ended while it worked on this");
            at = &client->questions;
        }
    }
    client->events.lost(reason, client->events.user);
}

static void hello_answered(const struct keeper_message *message, void *user)
{
    struct keeper_client *client = user;
    if (message->status != 0)
        return;
    client->events.connected(message->text, client->events.user);
}

static void connect_again(struct timer *timer, void *user)
{
    struct keeper_client *client = user;
    int fd = unix_connect(client->path, SOCK_SEQPACKET | SOCK_NONBLOCK);
    if (fd >= 0)
        client->source = source_add(client->loop, fd, EPOLLIN, ready, client);
    if (fd < 0 || !client->source) {
        close_fd(fd);
        client->retry_ms =
            client->retry_ms * 2 > SLOWEST_RETRY_MS ? SLOWEST_RETRY_MS : client->retry_ms * 2;
        timer_arm(timer, client->retry_ms);
        client->events.absent(client->events.user);
        return;
    }
    client->fd = fd;
    struct keeper_message hello = {.type = KEEPER_HELLO};
    (void)snprintf(hello.text, sizeof hello.text, "%s", HUSK_VERSION);
    /* In front of what waits to be asked again. */
    struct question *first = question_new(client, &hello, hello_answered, client);
    first->next = client->questions;
    client->questions = first;
    try_send(client);
}

struct keeper_client *keeper_client_new(struct loop *loop, int fd, const char *path,
                                        const struct keeper_events *events)
{
    struct keeper_client *client = must_alloc(sizeof *client);
    client->loop = loop;
    client->path = must_copy(path);
    client->events = *events;
    client->fd = fd;
    client->retry = timer_add(loop, connect_again, client);
    client->overdue = timer_add(loop, give_up_overdue, client);
    client->source = source_add(loop, fd, EPOLLIN, ready, client);
    husk_assert(client->source != NULL);
    return client;
}

struct keeper_client *keeper_client_free(struct keeper_client *client)
{
    if (!client)
        return NULL;
    source_remove(client->source);
    timer_remove(client->retry);
    timer_remove(client->overdue);
    close_fd(client->fd);
    while (client->questions) {
        struct question *question = client->questions;
        client->questions = question->next;
        question_free(question);
    }
    free(client->path);
    free(client);
    return NULL;
}
