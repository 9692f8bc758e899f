#include "huskd/porter_client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fdio.h"
#include "base/frame.h"
#include "base/memory.h"
#include "huskd/keeper_client.h"
#include "loop/loop.h"

enum {
    SEND_LIMIT = 8 * KIB
};

struct porter_client {
    struct loop *loop;
    struct keeper_client *keeper;
    uint64_t tag; /* of the question to the keeper; 0: it is answered */
    struct porter_events events;
    struct porter_request request;
    char *path;
    struct frame_stream stream;
    struct source *source; /* NULL: nothing is read now */
    struct timer *again;   /* frames may be waiting in the buffer */
    bool paused;
    bool over;
};

static void end(struct porter_client *client, const struct porter_end *last)
{
    client->source = source_remove(client->source);
    timer_disarm(client->again);
    frame_stream_close(&client->stream);
    client->over = true;
    client->events.ended(last, client->events.user);
}

static void end_early(struct porter_client *client)
{
    struct porter_end last = {.status = -ECONNRESET};
    (void)snprintf(last.text, sizeof last.text,
                   "The job on the folder was ended before it was done: it took too long, or the "
                   "sandbox has no memory left.");
    end(client, &last);
}

/* One that unpacks reads what strangers packed, and may have been taken over: of data only who has asked for some is told. */
static bool has_data(const struct porter_client *client)
{
    return client->request.job == PORTER_LIST || client->request.job == PORTER_PACK;
}

/* False: it was the last one. */
static bool take_frame(struct porter_client *client, const struct frame_header *header,
                       const char *payload)
{
    struct porter_begin begin;
    struct porter_end last;
    if (header->type == PORTER_BEGIN && header->length == sizeof begin && has_data(client)) {
        memcpy(&begin, payload, sizeof begin);
        client->events.begun(&begin, client->events.user);
        return true;
    }
    if (header->type == PORTER_DATA && has_data(client)) {
        client->events.data(payload, header->length, client->events.user);
        return true;
    }
    if (header->type == PORTER_END && header->length == sizeof last) {
        memcpy(&last, payload, sizeof last);
        last.text[sizeof last.text - 1] = '\0';
        end(client, &last);
        return false;
    }
    end_early(client);
    return false;
}

static void ready(struct source *source, uint32_t events, void *user);

/* `ended` may free the client. */
static void take_frames(struct porter_client *client)
{
    while (!client->paused) {
        struct frame_header header;
        const char *payload;
        struct failure why;
        int r = frame_next(&client->stream, &header, &payload, &why);
        if (r == 0)
            break;
        if (r < 0)
            return end_early(client);
        if (!take_frame(client, &header, payload))
            return;
    }
    /* While nobody wants more it is not watched: its end alone would wake the loop again and again. */
    if (client->paused)
        client->source = source_remove(client->source);
    else if (!client->source)
        client->source = source_add(client->loop, client->stream.fd, EPOLLIN, ready, client);
    if (!client->paused && !client->source)
        end_early(client);
}

static void ready(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct porter_client *client = user;
    int r = frame_fill(&client->stream);
    if (r == -EAGAIN)
        return;
    if (r < 0)
        end_early(client);
    else
        take_frames(client);
}

static void go_on(struct timer *timer _unused_, void *user)
{
    take_frames(user);
}

void porter_client_pause(struct porter_client *client)
{
    client->paused = true;
}

void porter_client_resume(struct porter_client *client)
{
    if (!client->paused || client->over)
        return;
    client->paused = false;
    timer_arm(client->again, 0);
}

/* --- start and end ------------------------------------------------------------------------------ */

static int send_request(struct porter_client *client)
{
    char message[sizeof client->request + MAX_FILE_PATH_BYTES];
    size_t length = client->request.path_bytes;
    memcpy(message, &client->request, sizeof client->request);
    memcpy(message + sizeof client->request, client->path, length);
    return frame_send(&client->stream, PORTER_REQUEST, 0, message, sizeof client->request + length);
}

static void started(const struct keeper_message *answer, int fd, void *user)
{
    struct porter_client *client = user;
    client->tag = 0;
    if (fd < 0) {
        client->over = true;
        client->events.refused(answer->status < 0 ? -answer->status : EPROTO, client->events.user);
        return;
    }
    (void)set_nonblocking(fd, true);
    frame_stream_init(&client->stream, fd, PORTER_BLOCK_BYTES, SEND_LIMIT);
    if (send_request(client) < 0)
        end_early(client);
    else
        take_frames(client);
}

struct porter_client *porter_client_new(struct loop *loop, struct keeper_client *keeper,
                                        const struct porter_task *task,
                                        const struct porter_events *events)
{
    struct porter_client *client = must_alloc(sizeof *client);
    *client = (struct porter_client){.loop = loop,
                                     .keeper = keeper,
                                     .events = *events,
                                     .path = must_copy(task->path),
                                     .stream = {.fd = -1}};
    client->request = (struct porter_request){
        .job = task->job, .flags = task->flags, .path_bytes = (uint32_t)strlen(task->path)};
    client->again = timer_add(loop, go_on, client);
    struct keeper_message question = {.type = KEEPER_PORT};
    memcpy(question.id, task->sandbox.bytes, sizeof question.id);
    int archive = task->archive >= 0 ? fcntl(task->archive, F_DUPFD_CLOEXEC, 0) : -1;
    client->tag = keeper_client_ask_file(keeper, &question, task->folder, archive, started, client);
    return client;
}

void porter_client_free(struct porter_client *client)
{
    if (!client)
        return;
    if (client->tag)
        keeper_client_forget(client->keeper, client->tag);
    source_remove(client->source);
    timer_remove(client->again);
    frame_stream_close(&client->stream);
    free(client->path);
    free(client);
}
