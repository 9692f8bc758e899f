#include "huskd/shim_client.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fdio.h"
#include "base/frame.h"
#include "base/log.h"
#include "base/memory.h"
#include "husk/limits.h"
#include "huskd/problem.h"

enum {
    SEND_LIMIT = 2 * MAX_EXECUTE_FRAME_BYTES,
    STATUS_LIMIT = MAX_RECORD_BYTES + 64 * KIB,
    READS_PER_EVENT = 16 /* then others have their turn */
};

struct call {
    struct call *next;
    uint64_t tag;
    enum shim_type type;
    shim_callback callback;
    shim_data_callback data;
    void *user;
    struct shim_client *client;
    uint64_t patience_ms;
    struct timer *overdue;
    size_t owed; /* bytes of its stream that were not passed on yet */
};

struct shim_client {
    struct loop *loop;
    struct shim_events events;
    struct frame_stream stream;
    struct source *source;
    uint64_t last_tag;
    struct call *calls;
    bool handling; /* inside readable(): closing waits until it returns */
    bool closed;
};

/* --- calls --------------------------------------------------------------------------------------
 */

static void free_call(struct call *call)
{
    timer_remove(call->overdue);
    free(call);
}

/* A shim ends every call by itself, so this one hangs: whoever waits must not. Unless it is the shim that waits. */
static void call_overdue(struct timer *timer, void *user)
{
    struct call *call = user;
    if (call->owed > 0)
        timer_arm(timer, call->patience_ms);
    else
        call->client->events.lost("its shim does not answer", call->client->events.user);
}

static struct call *find_call(const struct shim_client *client, uint64_t tag)
{
    struct call *call = client->calls;
    while (call && call->tag != tag)
        call = call->next;
    return call;
}

static void finish_call(struct shim_client *client, uint64_t tag, const struct shim_answer *answer)
{
    for (struct call **at = &client->calls; *at; at = &(*at)->next) {
        if ((*at)->tag != tag)
            continue;
        struct call *call = *at;
        *at = call->next;
        call->callback(answer, call->user);
        free_call(call);
        return;
    }
}

static void watch(struct shim_client *client)
{
    uint32_t events = EPOLLIN;
    if (frame_wants_write(&client->stream))
        events |= EPOLLOUT;
    (void)source_set_events(client->source, events);
}

/* A broken connection is noticed by reading: -EPIPE here would come in the middle of somebody's
 * call. */
static int send_frame(struct shim_client *client, enum shim_type type, uint64_t tag,
                      const struct shim_request *request)
{
    int r = frame_send(&client->stream, (uint16_t)type, tag, request->payload, request->length);
    watch(client);
    return r == -ENOSPC ? r : 0;
}

int shim_client_tell(struct shim_client *client, enum shim_type type, const char *payload,
                     size_t length)
{
    return send_frame(client, type, 0,
                      &(struct shim_request){.payload = payload, .length = length});
}

int shim_client_reply(struct shim_client *client, enum shim_type type, uint64_t tag,
                      const char *payload, size_t length)
{
    return send_frame(client, type, tag,
                      &(struct shim_request){.payload = payload, .length = length});
}

int shim_client_call(struct shim_client *client, enum shim_type type,
                     const struct shim_request *request, uint64_t *ret_tag)
{
    uint64_t tag = ++client->last_tag;
    int r = send_frame(client, type, tag, request);
    if (r < 0)
        return r;
    struct call *call = must_alloc(sizeof *call);
    *call = (struct call){.next = client->calls,
                          .tag = tag,
                          .type = type,
                          .callback = request->callback,
                          .data = request->data,
                          .user = request->user,
                          .client = client,
                          .patience_ms = request->patience_ms};
    call->overdue = timer_add(client->loop, call_overdue, call);
    timer_arm(call->overdue, request->patience_ms);
    client->calls = call;
    *ret_tag = tag;
    return 0;
}

size_t shim_client_running(const struct shim_client *client)
{
    size_t count = 0;
    for (const struct call *call = client->calls; call; call = call->next)
        count += call->type == SHIM_EXECUTE || call->type == SHIM_COMMAND;
    return count;
}

void shim_client_credit(struct shim_client *client, uint64_t tag, size_t bytes)
{
    struct call *call = find_call(client, tag);
    if (!call)
        return;
    struct shim_credit credit = {.bytes = (uint32_t)bytes};
    call->owed -= bytes < call->owed ? bytes : call->owed;
    timer_arm(call->overdue, call->patience_ms);
    (void)send_frame(
        client, SHIM_CREDIT, tag,
        &(struct shim_request){.payload = (const char *)&credit, .length = sizeof credit});
}

void shim_client_forget(struct shim_client *client, uint64_t tag)
{
    for (struct call **at = &client->calls; *at; at = &(*at)->next) {
        if ((*at)->tag != tag)
            continue;
        struct call *call = *at;
        *at = call->next;
        if (call->type == SHIM_EXECUTE || call->type == SHIM_COMMAND || call->type == SHIM_ASK)
            (void)send_frame(client, SHIM_CANCEL, tag, &(struct shim_request){.payload = ""});
        free_call(call);
        return;
    }
}

/* --- what the shim says -------------------------------------------------------------------------
 */

static int read_state(const json_t *json, enum shim_state *ret)
{
    static const char *const names[] = {
        [SHIM_IS_NEW] = "new",   [SHIM_IS_STARTING] = "starting",     [SHIM_IS_READY] = "ready",
        [SHIM_IS_BUSY] = "busy", [SHIM_IS_RESTARTING] = "restarting", [SHIM_IS_DEAD] = "dead",
    };
    const char *text = json_string_value(json_object_get(json, "state"));
    for (size_t i = 0; text && i < ARRAY_LENGTH(names); i++) {
        if (!strcmp(text, names[i])) {
            *ret = (enum shim_state)i;
            return 0;
        }
    }
    return -EPROTO;
}

static uint64_t count_of(const json_t *json, const char *key, json_int_t maximum)
{
    json_int_t value = json_integer_value(json_object_get(json, key));
    return value < 0 ? 0 : (uint64_t)(value > maximum ? maximum : value);
}

static json_t *object_of(const json_t *json, const char *key, size_t limit)
{
    json_t *value = json_object_get(json, key);
    return json_is_object(value) && json_dumpb(value, NULL, 0, JSON_COMPACT) <= limit ? value
                                                                                      : NULL;
}

static int take_status(struct shim_client *client, const char *payload, size_t length)
{
    if (length > STATUS_LIMIT)
        return -EMSGSIZE;
    json_t *json = json_loadb(payload, length, JSON_ALLOW_NUL, NULL);
    struct shim_status status;
    int r = read_state(json, &status.state);
    if (r == 0) {
        status.execution_count = count_of(json, "execution_count", INT64_MAX);
        status.queued = (uint32_t)count_of(json, "queued", UINT32_MAX);
        status.commands = (uint32_t)count_of(json, "commands", UINT32_MAX);
        status.kernel = object_of(json, "kernel", MAX_KERNEL_INFO_BYTES);
        status.is_answer = json_object_get(json, "record") != NULL;
        status.record = object_of(json, "record", MAX_RECORD_BYTES);
        client->events.status(&status, client->events.user);
    }
    json_decref(json);
    return r;
}

static void take_result(struct shim_client *client, uint64_t tag, const char *payload,
                        size_t length)
{
    struct shim_answer answer = {.body = payload + sizeof answer.head,
                                 .length = length - sizeof answer.head};
    memcpy(&answer.head, payload, sizeof answer.head);
    finish_call(client, tag, &answer);
}

/* A shim that sends more than it was given credit for would make us hold more than we promised. */
static int take_data(struct shim_client *client, const struct frame_header *header,
                     const char *payload)
{
    struct call *call = find_call(client, header->tag);
    if (!call)
        return 0; /* its caller went away */
    if (!call->data || header->length > STREAM_WINDOW_BYTES - call->owed)
        return -EPROTO;
    call->owed += header->length;
    timer_arm(call->overdue, call->patience_ms);
    call->data(payload, header->length, call->user);
    return 0;
}

static enum problem_kind rejection(const char *code)
{
    static const struct {
        const char *code;
        enum problem_kind kind;
    } kinds[] = {{"queue_full", PROBLEM_QUEUE_FULL},
                 {"sandbox_busy", PROBLEM_SANDBOX_BUSY},
                 {"kernel_timeout", PROBLEM_KERNEL_TIMEOUT},
                 {"no_input_expected", PROBLEM_NO_INPUT_EXPECTED},
                 {"execution_not_found", PROBLEM_EXECUTION_NOT_FOUND},
                 {"too_many_commands", PROBLEM_TOO_MANY_COMMANDS},
                 {"command_not_found", PROBLEM_COMMAND_NOT_FOUND}};
    for (size_t i = 0; code && i < ARRAY_LENGTH(kinds); i++) {
        if (!strcmp(code, kinds[i].code))
            return kinds[i].kind;
    }
    return PROBLEM_KERNEL_UNAVAILABLE;
}

/* {"code" or "status": …, "detail": "…"} of SHIM_REJECTED and SHIM_DONE. */
static void take_outcome(struct shim_client *client, const struct frame_header *header,
                         const char *payload)
{
    json_t *json = json_loadb(payload, header->length, 0, NULL);
    const char *code = json_string_value(json_object_get(json, "code"));
    const char *detail = json_string_value(json_object_get(json, "detail"));
    struct shim_answer answer = {0};
    struct problem problem;
    if (header->type == SHIM_REJECTED || json_integer_value(json_object_get(json, "status")) != 0) {
        problem_set(&problem, rejection(code), "%s",
                    detail ? detail : "The kernel could not do this now.");
        answer.problem = &problem;
    }
    finish_call(client, header->tag, &answer);
    json_decref(json);
}

static void take_dead(struct shim_client *client, const char *payload, size_t length)
{
    json_t *json = json_loadb(payload, length, 0, NULL);
    const char *detail = json_string_value(json_object_get(json, "detail"));
    client->events.lost(detail ? detail : "its kernel ended and could not be started again",
                        client->events.user);
    json_decref(json);
}

static int take_frame(struct shim_client *client, const struct frame_header *header,
                      const char *payload)
{
    switch (header->type) {
    case SHIM_STATUS:
        return take_status(client, payload, header->length);
    case SHIM_RESULT:
        if (header->length < sizeof(struct shim_result_head))
            return -EPROTO;
        take_result(client, header->tag, payload, header->length);
        return 0;
    case SHIM_STREAM:
        return take_data(client, header, payload);
    case SHIM_REJECTED:
    case SHIM_DONE:
        take_outcome(client, header, payload);
        return 0;
    case SHIM_DEAD:
        take_dead(client, payload, header->length);
        return 0;
    case SHIM_WANTED:
        if (client->events.wanted)
            client->events.wanted(header->tag, payload, header->length, client->events.user);
        return 0;
    case SHIM_UNWANTED:
        if (client->events.unwanted)
            client->events.unwanted(header->tag, client->events.user);
        return 0;
    default:
        return -EPROTO;
    }
}

/* --- the connection -----------------------------------------------------------------------------
 */

static int take_frames(struct shim_client *client)
{
    struct frame_header header;
    const char *payload;
    int r = 0;
    while (!client->closed && (r = frame_next(&client->stream, &header, &payload, NULL)) > 0) {
        r = take_frame(client, &header, payload);
        if (r < 0)
            break;
    }
    return client->closed ? 0 : r;
}

static int move_bytes(struct shim_client *client, uint32_t events)
{
    int r = 0;
    if (events & EPOLLOUT) {
        r = frame_flush(&client->stream);
        watch(client);
    }
    for (int i = 0; i < READS_PER_EVENT && r == 0 && !client->closed; i++) {
        r = frame_fill(&client->stream);
        if (r == 0)
            r = take_frames(client);
    }
    return r == -EAGAIN ? 0 : r;
}

static void free_client(struct shim_client *client)
{
    frame_stream_close(&client->stream);
    free(client);
}

static void readable(struct source *source _unused_, uint32_t events, void *user)
{
    struct shim_client *client = user;
    client->handling = true;
    int r = move_bytes(client, events);
    if (r < 0 && !client->closed)
        client->events.lost(r == -EPIPE || r == -ECONNRESET
                                ? "its shim ended"
                                : "its shim sent something it must not send",
                            client->events.user);
    client->handling = false;
    if (client->closed)
        free_client(client);
}

int shim_client_connect(struct loop *loop, const char *path, const struct shim_events *events,
                        struct shim_client **ret, struct failure *why)
{
    _cleanup_close_ int fd = unix_connect(path, SOCK_STREAM | SOCK_NONBLOCK);
    if (fd < 0)
        return fail(why, fd, "connect to %.120s", path);
    struct shim_client *client = must_alloc(sizeof *client);
    client->loop = loop;
    client->events = *events;
    client->source = source_add(loop, fd, EPOLLIN, readable, client);
    if (!client->source) {
        free(client);
        return fail(why, errno, "watch %.120s", path);
    }
    frame_stream_init(&client->stream, TAKE_DESCRIPTOR(fd),
                      MAX_ANSWER_BYTES + sizeof(struct shim_result_head), SEND_LIMIT);
    *ret = client;
    return 0;
}

void shim_client_close(struct shim_client *client, const struct problem *why)
{
    if (!client || client->closed)
        return;
    client->closed = true;
    client->source = source_remove(client->source);
    while (client->calls)
        finish_call(client, client->calls->tag, &(struct shim_answer){.problem = why});
    if (!client->handling)
        free_client(client);
}
