/* A keeper and shims for unit tests of huskd, on the same loop as what is tested. They do what the real ones promise, unless a
 * test tells them not to. */
#pragma once

#include "run_loop.h"

#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fdio.h"
#include "base/frame.h"
#include "base/id.h"
#include "base/text.h"
#include "husk/keeper_protocol.h"
#include "husk/shim_protocol.h"
#include "loop/loop.h"

enum {
    FAKE_BOXES = 8,
    FAKE_PATH = 128
};

struct fake_box {
    struct fake *fake;
    bool there;
    bool hidden; /* the keeper has forgotten it */
    uint8_t id[16];
    struct sandbox_limits limits;
    int listen_fd;
    struct source *listen_source;
    struct frame_stream stream;
    struct source *source;
    char record
        [1024]; /* {"env": …, "record": …} as it came with SHIM_START, or later with SHIM_RECORD */
};

struct fake {
    struct loop *loop;
    char folder[32];
    char socket[FAKE_PATH];
    int listen_fd;
    struct source *listen_source;
    int fd; /* the connection of huskd */
    struct source *source;
    struct fake_box boxes[FAKE_BOXES];
    unsigned asked[KEEPER_ADAPT + 1]; /* by type */
    struct keeper_message last[KEEPER_ADAPT + 1];
    char last_path[MAX_FILE_PATH_BYTES + 1];

    /* What tests change. */
    int create_status;
    int adapt_status;
    uint32_t adapt_flags;
    bool silent;            /* answers no KEEPER_CREATE, no KEEPER_OPEN and no KEEPER_ADAPT */
    const char *shim_state; /* what a shim says after SHIM_START and SHIM_HELLO */
    bool shim_silent;
    int execution_count, queued; /* what shims say */
};

static void fake_send(struct fake *fake, const struct keeper_message *message)
{
    assert_int_equal(send_with_fds(fake->fd, message, sizeof *message, NULL, 0), 0);
}

static bool fake_knows(const struct fake_box *box)
{
    return box->there && !box->hidden;
}

static struct fake_box *fake_find(struct fake *fake, const uint8_t id[16])
{
    for (size_t i = 0; i < FAKE_BOXES; i++) {
        if (fake_knows(&fake->boxes[i]) && !memcmp(fake->boxes[i].id, id, 16))
            return &fake->boxes[i];
    }
    return NULL;
}

/* --- shims --- */

static void fake_shim_send(struct fake_box *box, enum shim_type type, uint64_t tag,
                           const char *text)
{
    assert_int_equal(frame_send(&box->stream, (uint16_t)type, tag, text, strlen(text)), 0);
}

static void fake_shim_hang_up(struct fake_box *box)
{
    box->source = source_remove(box->source);
    frame_stream_close(&box->stream);
}

static void fake_shim_status(struct fake_box *box, const char *state, bool with_record)
{
    char text[2048];
    /* The record is the last member of SHIM_START: what follows it is the closing brace of the whole. */
    const char *record = strstr(box->record, "\"record\":");
    (void)snprintf(text, sizeof text,
                   "{\"state\":\"%s\",\"execution_count\":%d,\"queued\":%d,\"kernel\":"
                   "{\"language\":\"python\"}%s%s",
                   state, box->fake->execution_count, box->fake->queued, with_record ? "," : "}",
                   !with_record ? ""
                   : record     ? record
                                : "\"record\":null}");
    fake_shim_send(box, SHIM_STATUS, 0, text);
}

static void fake_shim_frame(struct fake_box *box, const struct frame_header *header,
                            const char *payload)
{
    static const struct shim_result_head head = {.status = EXECUTION_OK, .duration_ms = 5};
    char result[128];
    switch (header->type) {
    case SHIM_START:
        assert_true(header->length < sizeof box->record);
        memcpy(box->record, payload, header->length);
        box->record[header->length] = '\0';
        fake_shim_status(box, "starting", false);
        if (!box->fake->shim_silent)
            fake_shim_status(box, box->fake->shim_state, false);
        break;
    case SHIM_RECORD:
        (void)snprintf(box->record, sizeof box->record, "{\"record\":%.*s}", (int)header->length,
                       payload);
        break;
    case SHIM_HELLO:
        /* A change of state that has nothing to do with the question may come first. */
        fake_shim_status(box, "busy", false);
        if (!box->fake->shim_silent)
            fake_shim_status(box, box->fake->shim_state, true);
        break;
    case SHIM_EXECUTE:
        memcpy(result, &head, sizeof head);
        (void)snprintf(result + sizeof head, sizeof result - sizeof head, "{\"stdout\": \"x\"}");
        if (!box->fake->shim_silent)
            assert_int_equal(frame_send(&box->stream, SHIM_RESULT, header->tag, result,
                                        sizeof head + strlen(result + sizeof head)),
                             0);
        break;
    case SHIM_INTERRUPT:
        fake_shim_send(box, SHIM_DONE, header->tag, "{\"status\": 0}");
        break;
    case SHIM_RESTART:
        fake_shim_send(box, SHIM_DONE, header->tag,
                       "{\"status\": -5, \"detail\": \"it would not\"}");
        break;
    default:
        break;
    }
}

static void fake_shim_ready(struct source *source, uint32_t events, void *user)
{
    struct fake_box *box = user;
    struct frame_header header;
    const char *payload;
    (void)source;
    (void)events;
    if (frame_fill(&box->stream) < 0) {
        fake_shim_hang_up(box);
        return;
    }
    while (box->source && frame_next(&box->stream, &header, &payload, NULL) > 0)
        fake_shim_frame(box, &header, payload);
}

static void fake_shim_accept(struct source *source, uint32_t events, void *user)
{
    struct fake_box *box = user;
    (void)source;
    (void)events;
    int fd = accept4(box->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(fd >= 0);
    frame_stream_init(&box->stream, fd, 1 << 20, 1 << 20);
    box->source = source_add(box->fake->loop, fd, EPOLLIN, fake_shim_ready, box);
}

static void fake_box_path(const struct fake_box *box, char path[FAKE_PATH])
{
    struct id id;
    char text[ID_TEXT_SIZE];
    memcpy(id.bytes, box->id, 16);
    id_format(id, text);
    (void)snprintf(path, FAKE_PATH, "%s/" SHIM_SOCKET_DIR "/%s", box->fake->folder, text);
}

static struct fake_box *fake_box_make(struct fake *fake, const uint8_t id[16])
{
    char path[FAKE_PATH];
    struct fake_box *box = fake->boxes;
    while (box->there)
        box++;
    assert_true(box < fake->boxes + FAKE_BOXES);
    *box = (struct fake_box){.fake = fake, .there = true, .stream.fd = -1};
    memcpy(box->id, id, 16);
    fake_box_path(box, path);
    box->listen_fd = unix_listen(path, SOCK_STREAM);
    assert_true(box->listen_fd >= 0);
    box->listen_source = source_add(fake->loop, box->listen_fd, EPOLLIN, fake_shim_accept, box);
    return box;
}

static void fake_box_remove(struct fake_box *box)
{
    char path[FAKE_PATH];
    fake_box_path(box, path);
    fake_shim_hang_up(box);
    source_remove(box->listen_source);
    close(box->listen_fd);
    assert_int_equal(unlink(path), 0);
    box->there = false;
}

static size_t fake_count(const struct fake *fake)
{
    size_t count = 0;
    for (size_t i = 0; i < FAKE_BOXES; i++)
        count += fake_knows(&fake->boxes[i]);
    return count;
}

/* --- the keeper --- */

static void fake_usage(struct fake *fake, struct keeper_message answer)
{
    static const uint8_t all[16];
    size_t left = memcmp(answer.id, all, 16) ? 1 : fake_count(fake);
    bool one = memcmp(answer.id, all, 16) != 0;
    answer.status = -ENOENT;
    if (left == 0 || (one && !fake_find(fake, answer.id))) {
        fake_send(fake, &answer);
        return;
    }
    answer.status = 0;
    answer.usage.memory_bytes = 12345;
    for (size_t i = 0; i < FAKE_BOXES; i++) {
        if (!fake_knows(&fake->boxes[i]) || (one && memcmp(answer.id, fake->boxes[i].id, 16) != 0))
            continue;
        struct keeper_message entry = answer;
        memcpy(entry.id, fake->boxes[i].id, 16);
        entry.limits = fake->boxes[i].limits;
        entry.flags = --left ? KEEPER_MORE : 0;
        fake_send(fake, &entry);
    }
}

/* The file that is asked for holds its own path. */
static void fake_open(struct fake *fake, struct keeper_message message, const char *path)
{
    if (!fake_find(fake, message.id)) {
        message.status = -ENOENT;
        fake_send(fake, &message);
        return;
    }
    int fd = file_with(path, strlen(path));
    assert_int_equal(send_with_fds(fake->fd, &message, sizeof message, &fd, 1), 0);
    close(fd);
}

static void fake_answer(struct fake *fake, struct keeper_message message)
{
    struct fake_box *box = fake_find(fake, message.id);
    fake->asked[message.type]++;
    fake->last[message.type] = message;
    switch (message.type) {
    case KEEPER_CREATE:
        if (fake->silent)
            return;
        message.status = fake->create_status;
        (void)snprintf(message.text, sizeof message.text, "%s", message.status ? "no room" : "");
        if (message.status == 0)
            fake_box_make(fake, message.id)->limits = message.limits;
        break;
    case KEEPER_ADAPT:
        if (fake->silent)
            return;
        message.status = box ? fake->adapt_status : -ENOENT;
        message.flags = fake->adapt_flags;
        if (message.status == 0)
            box->limits = message.limits;
        break;
    case KEEPER_REMOVE:
        message.status = box ? 0 : -ENOENT;
        if (box)
            fake_box_remove(box);
        break;
    case KEEPER_USAGE:
        fake_usage(fake, message);
        return;
    case KEEPER_OPEN:
        if (!fake->silent)
            fake_open(fake, message, fake->last_path);
        return;
    default:
        (void)snprintf(message.text, sizeof message.text, "1.2.3");
        break;
    }
    fake_send(fake, &message);
}

static void fake_hang_up(struct fake *fake)
{
    fake->source = source_remove(fake->source);
    fake->fd = close_fd(fake->fd);
}

static void fake_ready(struct source *source, uint32_t events, void *user)
{
    struct fake *fake = user;
    struct keeper_request request;
    (void)source;
    (void)events;
    while (fake->fd >= 0) {
        ssize_t got = recv(fake->fd, &request, sizeof request, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN)
            return;
        if (got < (ssize_t)sizeof request.message) {
            fake_hang_up(fake);
            return;
        }
        assert_int_equal(request.message.version, KEEPER_PROTOCOL_VERSION);
        assert_int_equal(got, sizeof request.message + request.message.path_bytes);
        memcpy(fake->last_path, request.path, request.message.path_bytes);
        fake->last_path[request.message.path_bytes] = '\0';
        fake_answer(fake, request.message);
    }
}

static void fake_accept(struct source *source, uint32_t events, void *user)
{
    struct fake *fake = user;
    (void)source;
    (void)events;
    fake_hang_up(fake);
    fake->fd = accept4(fake->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(fake->fd >= 0);
    fake->source = source_add(fake->loop, fake->fd, EPOLLIN, fake_ready, fake);
}

static void fake_start(struct fake *fake, struct loop *loop)
{
    char path[FAKE_PATH];
    *fake = (struct fake){
        .loop = loop, .fd = -1, .shim_state = "ready", .execution_count = 3, .queued = 1};
    make_directory(fake->folder);
    (void)snprintf(path, sizeof path, "%s/" SHIM_SOCKET_DIR, fake->folder);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(fake->socket, sizeof fake->socket, "%s/" KEEPER_SOCKET_NAME, fake->folder);
    fake->listen_fd = unix_listen(fake->socket, SOCK_SEQPACKET);
    assert_true(fake->listen_fd >= 0);
    fake->listen_source = source_add(loop, fake->listen_fd, EPOLLIN, fake_accept, fake);
}

static void fake_stop(struct fake *fake)
{
    char path[FAKE_PATH];
    for (size_t i = 0; i < FAKE_BOXES; i++) {
        if (fake->boxes[i].there)
            fake_box_remove(&fake->boxes[i]);
    }
    fake_hang_up(fake);
    source_remove(fake->listen_source);
    close(fake->listen_fd);
    (void)snprintf(path, sizeof path, "%s/" SHIM_SOCKET_DIR, fake->folder);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(unlink(fake->socket), 0);
    assert_int_equal(rmdir(fake->folder), 0);
}
