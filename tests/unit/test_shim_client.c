/* Streams that come from a shim, which is not trusted with more than it was given credit for. */
#include "run_loop.h"

#include <sys/socket.h>

#include "base/buffer.h"
#include "base/fdio.h"
#include "base/frame.h"
#include "husk/limits.h"
#include "huskd/problem.h"
#include "huskd/shim_client.h"
#include "skip_time.h"

enum {
    PATIENCE = 10 * 1000
};

/* One call, and what came of it. */
struct heard {
    struct fixture *fixture;
    struct buffer data;
    unsigned pieces, answers;
    enum problem_kind problem;
    struct shim_result_head head;
    char body[64];
    bool close_on_data, close_on_answer, forget_on_data;
    uint64_t tag;
};

struct fixture {
    struct loop *loop;
    char folder[32], path[64];
    int listener;
    struct shim_client *client;
    unsigned lost;
    char reason[64];
    bool close_when_lost;
    struct heard heard[3];

    struct frame_stream shim; /* the other end */
    struct source *source;
    unsigned frames[SHIM_ASK + 1]; /* by type */
    uint64_t last_tag;
    struct shim_credit credit; /* of the last SHIM_CREDIT */
};

static void close_client(struct fixture *fixture)
{
    struct problem problem;
    problem_set(&problem, PROBLEM_SANDBOX_CLOSED, "closed");
    shim_client_close(fixture->client, &problem);
    fixture->client = NULL;
}

static void on_status(const struct shim_status *status, void *user)
{
    (void)status;
    (void)user;
}

static void on_lost(const char *reason, void *user)
{
    struct fixture *fixture = user;
    fixture->lost++;
    (void)snprintf(fixture->reason, sizeof fixture->reason, "%s", reason);
    if (fixture->close_when_lost)
        close_client(fixture);
}

static void on_answer(const struct shim_answer *answer, void *user)
{
    struct heard *heard = user;
    heard->answers++;
    heard->problem = answer->problem ? answer->problem->kind : PROBLEM_NONE;
    heard->head = answer->head;
    (void)snprintf(heard->body, sizeof heard->body, "%.*s", (int)answer->length,
                   answer->body ? answer->body : "");
    if (heard->close_on_answer)
        close_client(heard->fixture);
}

static void on_data(const char *data, size_t length, void *user)
{
    struct heard *heard = user;
    assert_int_equal(heard->answers, 0);
    heard->pieces++;
    assert_int_equal(buffer_append(&heard->data, data, length), 0);
    if (heard->close_on_data)
        close_client(heard->fixture);
    if (heard->forget_on_data)
        shim_client_forget(heard->fixture->client, heard->tag);
}

/* --- the shim ------------------------------------------------------------------------------- */

static void shim_readable(struct source *source, uint32_t events, void *user)
{
    struct fixture *fixture = user;
    struct frame_header header;
    const char *payload;
    (void)source;
    (void)events;
    if (frame_fill(&fixture->shim) < 0) {
        fixture->source = source_remove(fixture->source);
        return;
    }
    while (frame_next(&fixture->shim, &header, &payload, NULL) > 0) {
        assert_in_range(header.type, SHIM_HELLO, ARRAY_LENGTH(fixture->frames) - 1);
        fixture->frames[header.type]++;
        fixture->last_tag = header.tag;
        if (header.type == SHIM_CREDIT) {
            assert_int_equal(header.length, sizeof fixture->credit);
            memcpy(&fixture->credit, payload, sizeof fixture->credit);
        }
        if (header.type == SHIM_CANCEL)
            assert_int_equal(header.length, 0);
    }
}

static void send_frame(struct fixture *fixture, enum shim_type type, uint64_t tag, const void *data,
                       size_t length)
{
    assert_int_equal(frame_send(&fixture->shim, (uint16_t)type, tag, data, length), 0);
    assert_false(frame_wants_write(&fixture->shim));
}

/* So many bytes of a stream, in frames as the real one sends them. */
static void send_stream(struct fixture *fixture, uint64_t tag, size_t bytes)
{
    static char chunk[STREAM_CHUNK_BYTES];
    while (bytes > 0) {
        size_t length = bytes < sizeof chunk ? bytes : sizeof chunk;
        memset(chunk, 'a' + (int)(bytes % 26), length);
        assert_int_equal(frame_send(&fixture->shim, SHIM_STREAM, tag, chunk, length), 0);
        bytes -= length;
        while (frame_wants_write(&fixture->shim)) {
            run_for(fixture->loop, 1);
            assert_int_equal(frame_flush(&fixture->shim), 0);
        }
    }
}

static void send_result(struct fixture *fixture, uint64_t tag)
{
    struct shim_result_head head = {.status = EXECUTION_TIMEOUT, .duration_ms = tag};
    send_frame(fixture, SHIM_RESULT, tag, &head, sizeof head);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    struct shim_events events = {.status = on_status, .lost = on_lost, .user = fixture};
    struct failure why;
    fixture->loop = loop_new();
    make_directory(fixture->folder);
    (void)snprintf(fixture->path, sizeof fixture->path, "%s/shim", fixture->folder);
    fixture->listener = unix_listen(fixture->path, SOCK_STREAM);
    assert_true(fixture->listener >= 0);
    assert_int_equal(
        shim_client_connect(fixture->loop, fixture->path, &events, &fixture->client, &why), 0);
    int fd = accept4(fixture->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(fd >= 0);
    frame_stream_init(&fixture->shim, fd, 1 * MIB, 1 * MIB);
    fixture->source = source_add(fixture->loop, fd, EPOLLIN, shim_readable, fixture);
    for (size_t i = 0; i < ARRAY_LENGTH(fixture->heard); i++)
        fixture->heard[i].fixture = fixture;
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    close_client(fixture);
    fixture->source = source_remove(fixture->source);
    frame_stream_close(&fixture->shim);
    close(fixture->listener);
    assert_int_equal(unlink(fixture->path), 0);
    assert_int_equal(rmdir(fixture->folder), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(fixture->heard); i++)
        buffer_free(&fixture->heard[i].data);
    loop_free(fixture->loop);
    free(fixture);
    return 0;
}

/* A call whose news go to heard[index]. */
static uint64_t call(struct fixture *fixture, size_t index, enum shim_type type, bool streams)
{
    struct heard *heard = &fixture->heard[index];
    struct shim_request request = {.payload = "{}",
                                   .length = 2,
                                   .callback = on_answer,
                                   .data = streams ? on_data : NULL,
                                   .user = heard,
                                   .patience_ms = PATIENCE};
    assert_int_equal(shim_client_call(fixture->client, type, &request, &heard->tag), 0);
    return heard->tag;
}

static uint64_t stream(struct fixture *fixture, size_t index)
{
    return call(fixture, index, SHIM_EXECUTE, true);
}

/* The shim has broken the rules; what waits for it is told by whoever closes the client. */
static void expect_lost(struct fixture *fixture, const char *reason)
{
    RUN_UNTIL(fixture->loop, fixture->lost > 0);
    assert_string_equal(fixture->reason, reason);
}

#define BROKE_THE_RULES "its shim sent something it must not send"

/* --- tests ---------------------------------------------------------------------------------- */

static void bytes_then_the_end(void **state)
{
    struct fixture *fixture = *state;
    struct heard *heard = &fixture->heard[0], *other = &fixture->heard[1];
    uint64_t tag = stream(fixture, 0), second = stream(fixture, 1);
    send_frame(fixture, SHIM_STREAM, tag, "one ", 4);
    send_frame(fixture, SHIM_STREAM, second, "other", 5);
    send_frame(fixture, SHIM_STREAM, tag, "t\0o", 3);
    assert_int_equal(heard->pieces, 0);
    RUN_UNTIL(fixture->loop, heard->pieces == 2 && other->pieces == 1);
    assert_int_equal(heard->data.length, 7);
    assert_memory_equal(heard->data.data, "one t\0o", 7);
    assert_int_equal(heard->answers, 0);
    send_result(fixture, tag);
    RUN_UNTIL(fixture->loop, heard->answers == 1);
    assert_int_equal(heard->problem, PROBLEM_NONE);
    assert_int_equal(heard->head.status, EXECUTION_TIMEOUT);
    assert_int_equal(heard->head.duration_ms, tag);
    assert_string_equal(heard->body, "");
    /* What comes afterwards is for nobody. */
    send_frame(fixture, SHIM_STREAM, tag, "late", 4);
    send_result(fixture, tag);
    send_result(fixture, second);
    RUN_UNTIL(fixture->loop, other->answers == 1);
    assert_int_equal(heard->pieces, 2);
    assert_int_equal(heard->answers, 1);
    assert_int_equal(other->data.length, 5);
    assert_int_equal(fixture->lost, 0);
}

/* Refused before it began, or answered at once: a stream may have no bytes. */
static void no_bytes(void **state)
{
    struct fixture *fixture = *state;
    static const char refusal[] = "{\"code\": \"queue_full\", \"detail\": \"full\"}";
    send_frame(fixture, SHIM_REJECTED, stream(fixture, 0), refusal, strlen(refusal));
    send_result(fixture, stream(fixture, 1));
    RUN_UNTIL(fixture->loop, fixture->heard[0].answers == 1 && fixture->heard[1].answers == 1);
    assert_int_equal(fixture->heard[0].problem, PROBLEM_QUEUE_FULL);
    assert_int_equal(fixture->heard[1].problem, PROBLEM_NONE);
    assert_int_equal(fixture->heard[0].pieces + fixture->heard[1].pieces, 0);
}

static void credit_frames(void **state)
{
    struct fixture *fixture = *state;
    uint64_t tag = stream(fixture, 0);
    (void)stream(fixture, 1);
    send_stream(fixture, tag, 5000);
    RUN_UNTIL(fixture->loop, fixture->heard[0].data.length == 5000);
    assert_int_equal(fixture->frames[SHIM_CREDIT], 0); /* not by itself */
    shim_client_credit(fixture->client, tag, 1234);
    RUN_UNTIL(fixture->loop, fixture->frames[SHIM_CREDIT] == 1);
    assert_int_equal(fixture->last_tag, tag);
    assert_int_equal(fixture->credit.bytes, 1234);
    shim_client_credit(fixture->client, tag, 3766);
    RUN_UNTIL(fixture->loop, fixture->frames[SHIM_CREDIT] == 2);
    assert_int_equal(fixture->credit.bytes, 3766);
    /* Not of calls that are over. */
    send_result(fixture, tag);
    RUN_UNTIL(fixture->loop, fixture->heard[0].answers == 1);
    shim_client_credit(fixture->client, tag, 1);
    shim_client_credit(fixture->client, 999, 1);
    (void)call(fixture, 2, SHIM_INTERRUPT, false);
    RUN_UNTIL(fixture->loop, fixture->frames[SHIM_INTERRUPT] == 1);
    assert_int_equal(fixture->frames[SHIM_CREDIT], 2);
}

static void all_that_may_come(void **state)
{
    struct fixture *fixture = *state;
    struct heard *heard = &fixture->heard[0];
    uint64_t tag = stream(fixture, 0), second = stream(fixture, 1);
    send_stream(fixture, tag, STREAM_WINDOW_BYTES);
    send_stream(fixture, second, STREAM_WINDOW_BYTES); /* each has its own */
    RUN_UNTIL(fixture->loop, heard->data.length == STREAM_WINDOW_BYTES &&
                                 fixture->heard[1].data.length == STREAM_WINDOW_BYTES);
    for (int i = 0; i < 20; i++) {
        shim_client_credit(fixture->client, tag, 100000);
        send_stream(fixture, tag, 100000);
        RUN_UNTIL(fixture->loop,
                  heard->data.length == STREAM_WINDOW_BYTES + (size_t)(i + 1) * 100000);
    }
    assert_int_equal(fixture->lost, 0);
    send_stream(fixture, tag, 1);
    expect_lost(fixture, BROKE_THE_RULES);
    assert_int_equal(heard->data.length, STREAM_WINDOW_BYTES + 20 * 100000);
}

static void one_byte_more_than_credit(void **state)
{
    struct fixture *fixture = *state;
    uint64_t tag = stream(fixture, 0);
    fixture->close_when_lost = true;
    send_stream(fixture, tag, STREAM_WINDOW_BYTES);
    RUN_UNTIL(fixture->loop, fixture->heard[0].data.length == STREAM_WINDOW_BYTES);
    shim_client_credit(fixture->client, tag, 100);
    send_stream(fixture, tag, 101);
    expect_lost(fixture, BROKE_THE_RULES);
    assert_int_equal(fixture->heard[0].data.length, STREAM_WINDOW_BYTES);
    assert_int_equal(fixture->heard[0].answers, 1);
    assert_int_equal(fixture->heard[0].problem, PROBLEM_SANDBOX_CLOSED);
}

/* A frame larger than the window is too much, even as the first. */
static void one_frame_too_large(void **state)
{
    struct fixture *fixture = *state;
    char *data = calloc(1, STREAM_WINDOW_BYTES + 1);
    assert_non_null(data);
    fixture->close_when_lost = true;
    uint64_t tag = stream(fixture, 0);
    assert_int_equal(frame_send(&fixture->shim, SHIM_STREAM, tag, data, STREAM_WINDOW_BYTES + 1),
                     0);
    while (frame_wants_write(&fixture->shim) && !fixture->lost) {
        run_for(fixture->loop, 1);
        (void)frame_flush(&fixture->shim);
    }
    expect_lost(fixture, BROKE_THE_RULES);
    assert_int_equal(fixture->heard[0].pieces, 0);
    free(data);
}

/* Credit for more than has come does not open the window any further. */
static void too_much_credit(void **state)
{
    struct fixture *fixture = *state;
    uint64_t tag = stream(fixture, 0);
    shim_client_credit(fixture->client, tag, 5 * STREAM_WINDOW_BYTES);
    send_stream(fixture, tag, 1000);
    RUN_UNTIL(fixture->loop, fixture->heard[0].data.length == 1000);
    shim_client_credit(fixture->client, tag, 5000);
    send_stream(fixture, tag, STREAM_WINDOW_BYTES);
    RUN_UNTIL(fixture->loop, fixture->heard[0].data.length == STREAM_WINDOW_BYTES + 1000);
    send_stream(fixture, tag, 1);
    expect_lost(fixture, BROKE_THE_RULES);
}

/* The caller of a question went away: the kernel need not look any further. */
static void forgotten_question(void **state)
{
    struct fixture *fixture = *state;
    struct shim_request request = {.payload = "{}",
                                   .length = 2,
                                   .callback = on_answer,
                                   .user = &fixture->heard[0],
                                   .patience_ms = PATIENCE};
    uint64_t tag;
    assert_int_equal(shim_client_call(fixture->client, SHIM_ASK, &request, &tag), 0);
    RUN_UNTIL(fixture->loop, fixture->frames[SHIM_ASK] == 1);
    shim_client_forget(fixture->client, tag);
    RUN_UNTIL(fixture->loop, fixture->frames[SHIM_CANCEL] == 1);
    assert_int_equal(fixture->last_tag, tag);
    assert_int_equal(fixture->heard[0].answers, 0);
}

/* The caller went away while bytes were on their way. */
static void forgotten(void **state)
{
    struct fixture *fixture = *state;
    uint64_t tag = stream(fixture, 0);
    send_stream(fixture, tag, 100);
    RUN_UNTIL(fixture->loop, fixture->heard[0].data.length == 100);
    shim_client_forget(fixture->client, tag);
    RUN_UNTIL(fixture->loop, fixture->frames[SHIM_CANCEL] == 1);
    assert_int_equal(fixture->last_tag, tag);
    shim_client_credit(fixture->client, tag, 100);
    send_stream(fixture, tag, 2 * STREAM_WINDOW_BYTES);
    send_result(fixture, tag);
    send_frame(fixture, SHIM_STREAM, 12345, "x", 1); /* nor of one that never was */
    send_result(fixture, stream(fixture, 1));
    RUN_UNTIL(fixture->loop, fixture->heard[1].answers == 1);
    assert_int_equal(fixture->heard[0].data.length, 100);
    assert_int_equal(fixture->heard[0].answers, 0);
    assert_int_equal(fixture->frames[SHIM_CREDIT], 0);
    assert_int_equal(fixture->frames[SHIM_CANCEL], 1);
    assert_int_equal(fixture->lost, 0);
    skip_time(2 * PATIENCE);
    run_for(fixture->loop, 5);
    assert_int_equal(fixture->lost, 0);
}

static void not_a_stream(void **state)
{
    static const enum shim_type types[] = {SHIM_EXECUTE, SHIM_INTERRUPT, SHIM_FETCH, SHIM_INPUT};
    struct fixture *fixture = *state;
    uint64_t tag = call(fixture, 0, types[0], false);
    for (size_t i = 1; i < ARRAY_LENGTH(types); i++)
        (void)call(fixture, 1, types[i], false);
    send_frame(fixture, SHIM_STREAM, tag, "x", 1);
    expect_lost(fixture, BROKE_THE_RULES);
    assert_int_equal(fixture->heard[0].pieces, 0);
    assert_int_equal(fixture->heard[0].answers, 0);
}

static void result_without_head(void **state)
{
    struct fixture *fixture = *state;
    uint64_t tag = stream(fixture, 0);
    send_frame(fixture, SHIM_RESULT, tag, "short", 5);
    expect_lost(fixture, BROKE_THE_RULES);
    assert_int_equal(fixture->heard[0].answers, 0);
}

/* --- closing from inside -------------------------------------------------------------------- */

static void closed_by_data(void **state)
{
    struct fixture *fixture = *state;
    uint64_t tag = stream(fixture, 0);
    (void)stream(fixture, 1);
    fixture->heard[0].close_on_data = true;
    send_frame(fixture, SHIM_STREAM, tag, "first", 5);
    send_frame(fixture, SHIM_STREAM, tag, "second", 6);
    send_result(fixture, tag);
    RUN_UNTIL(fixture->loop, !fixture->client);
    assert_int_equal(fixture->heard[0].pieces, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fixture->heard[i].answers, 1);
        assert_int_equal(fixture->heard[i].problem, PROBLEM_SANDBOX_CLOSED);
    }
    assert_int_equal(fixture->lost, 0);
}

static void closed_by_an_answer(void **state)
{
    struct fixture *fixture = *state;
    uint64_t tag = stream(fixture, 0);
    (void)stream(fixture, 1);
    fixture->heard[0].close_on_answer = true;
    send_result(fixture, tag);
    send_frame(fixture, SHIM_STREAM, fixture->heard[1].tag, "x", 1);
    RUN_UNTIL(fixture->loop, !fixture->client);
    assert_int_equal(fixture->heard[0].answers, 1);
    assert_int_equal(fixture->heard[0].problem, PROBLEM_NONE);
    assert_int_equal(fixture->heard[1].pieces, 0);
    assert_int_equal(fixture->heard[1].problem, PROBLEM_SANDBOX_CLOSED);
}

static void forgotten_by_data(void **state)
{
    struct fixture *fixture = *state;
    uint64_t tag = stream(fixture, 0);
    fixture->heard[0].forget_on_data = true;
    send_frame(fixture, SHIM_STREAM, tag, "first", 5);
    send_frame(fixture, SHIM_STREAM, tag, "second", 6);
    send_result(fixture, tag);
    RUN_UNTIL(fixture->loop, fixture->frames[SHIM_CANCEL] == 1);
    assert_int_equal(fixture->heard[0].pieces, 1);
    assert_int_equal(fixture->heard[0].answers, 0);
}

static void shim_ends(void **state)
{
    struct fixture *fixture = *state;
    uint64_t tag = stream(fixture, 0);
    fixture->close_when_lost = true;
    send_frame(fixture, SHIM_STREAM, tag, "last words", 10);
    fixture->source = source_remove(fixture->source);
    frame_stream_close(&fixture->shim);
    expect_lost(fixture, "its shim ended");
    assert_int_equal(fixture->heard[0].data.length, 10);
    assert_int_equal(fixture->heard[0].problem, PROBLEM_SANDBOX_CLOSED);
}

/* --- patience ------------------------------------------------------------------------------- */

static void patience(void **state)
{
    struct fixture *fixture = *state;
    fixture->close_when_lost = true;
    (void)stream(fixture, 0);
    skip_time(PATIENCE / 2);
    run_for(fixture->loop, 5);
    assert_int_equal(fixture->lost, 0);
    skip_time(PATIENCE / 2);
    expect_lost(fixture, "its shim does not answer");
    assert_int_equal(fixture->lost, 1);
    assert_int_equal(fixture->heard[0].answers, 1);
}

/* Bytes count as a sign of life, and so does a client that takes some. */
static void patience_begins_anew(void **state)
{
    struct fixture *fixture = *state;
    struct heard *heard = &fixture->heard[0];
    uint64_t tag = stream(fixture, 0);
    for (int i = 1; i <= 5; i++) {
        skip_time(PATIENCE * 3 / 4);
        send_stream(fixture, tag, 1000);
        RUN_UNTIL(fixture->loop, heard->data.length == (size_t)i * 1000);
        skip_time(PATIENCE * 3 / 4);
        run_for(fixture->loop, 5);
        shim_client_credit(fixture->client, tag, 1000);
    }
    assert_int_equal(fixture->lost, 0);
    fixture->close_when_lost = true;
    skip_time(PATIENCE / 2);
    run_for(fixture->loop, 5);
    assert_int_equal(fixture->lost, 0);
    skip_time(PATIENCE / 2);
    expect_lost(fixture, "its shim does not answer");
}

/* It is the shim that waits, for a client that does not read: however long that takes. */
static void a_shim_that_waits_for_credit(void **state)
{
    struct fixture *fixture = *state;
    uint64_t tag = stream(fixture, 0);
    send_stream(fixture, tag, 1000);
    RUN_UNTIL(fixture->loop, fixture->heard[0].data.length == 1000);
    for (int i = 0; i < 5; i++) {
        skip_time(PATIENCE + 1);
        run_for(fixture->loop, 5);
    }
    shim_client_credit(fixture->client, tag, 999); /* one byte is still to be passed on */
    for (int i = 0; i < 5; i++) {
        skip_time(PATIENCE + 1);
        run_for(fixture->loop, 5);
    }
    assert_int_equal(fixture->lost, 0);
    shim_client_credit(fixture->client, tag, 1); /* now it is the shim's turn */
    skip_time(PATIENCE / 2);
    run_for(fixture->loop, 5);
    assert_int_equal(fixture->lost, 0);
    fixture->close_when_lost = true;
    skip_time(PATIENCE / 2);
    expect_lost(fixture, "its shim does not answer");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(bytes_then_the_end),
        TEST(no_bytes),
        TEST(credit_frames),
        TEST(all_that_may_come),
        TEST(one_byte_more_than_credit),
        TEST(one_frame_too_large),
        TEST(too_much_credit),
        TEST(forgotten),
        TEST(forgotten_question),
        TEST(not_a_stream),
        TEST(result_without_head),
        TEST(closed_by_data),
        TEST(closed_by_an_answer),
        TEST(forgotten_by_data),
        TEST(shim_ends),
        TEST(patience),
        TEST(patience_begins_anew),
        TEST(a_shim_that_waits_for_credit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
