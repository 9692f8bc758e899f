#include "unit.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/fdio.h"
#include "base/frame.h"

enum {
    RECEIVE_LIMIT = 300 * 1024, /* more than one read brings */
    SEND_LIMIT = 64 * 1024
};

struct fixture {
    struct frame_stream stream;
    int peer;
};

static int open_stream(void **state)
{
    static struct fixture fixture;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return -1;
    frame_stream_init(&fixture.stream, ends[0], RECEIVE_LIMIT, SEND_LIMIT);
    fixture.peer = ends[1];
    *state = &fixture;
    return 0;
}

static int close_stream(void **state)
{
    struct fixture *fixture = *state;
    frame_stream_close(&fixture->stream);
    close_fd(fixture->peer);
    return 0;
}

static void peer_sends(struct fixture *fixture, const void *data, size_t length)
{
    assert_int_equal(send(fixture->peer, data, length, MSG_NOSIGNAL), length);
}

static void peer_sends_header(struct fixture *fixture, uint16_t version, uint32_t length)
{
    struct frame_header header = {.version = version, .type = 5, .length = length, .tag = 6};
    peer_sends(fixture, &header, sizeof header);
}

/* The next frame must be this one. */
static void expect_frame(struct frame_stream *stream, uint16_t type, uint64_t tag,
                         const char *payload)
{
    struct frame_header header;
    const char *data;
    struct failure why = {0};
    assert_int_equal(frame_next(stream, &header, &data, &why), 1);
    assert_int_equal(header.version, FRAME_VERSION);
    assert_int_equal(header.type, type);
    assert_int_equal(header.tag, tag);
    assert_int_equal(header.length, strlen(payload));
    assert_memory_equal(data, payload, strlen(payload));
}

static void expect_none(struct frame_stream *stream)
{
    struct frame_header header;
    const char *data;
    assert_int_equal(frame_next(stream, &header, &data, NULL), 0);
}

static void frames_go_there_and_back(void **state)
{
    struct fixture *fixture = *state;
    struct frame_stream other;
    frame_stream_init(&other, TAKE_DESCRIPTOR(fixture->peer), RECEIVE_LIMIT, SEND_LIMIT);
    assert_int_equal(frame_send(&fixture->stream, 7, UINT64_MAX, "question", 8), 0);
    assert_int_equal(frame_fill(&other), 0);
    expect_frame(&other, 7, UINT64_MAX, "question");
    expect_none(&other);
    assert_int_equal(frame_send(&other, UINT16_MAX, 0, NULL, 0), 0);
    assert_int_equal(frame_fill(&fixture->stream), 0);
    expect_frame(&fixture->stream, UINT16_MAX, 0, "");
    expect_none(&fixture->stream);
    assert_false(frame_wants_write(&other));
    frame_stream_close(&other);
}

static void the_bytes_on_the_wire_are_as_documented(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(frame_send(&fixture->stream, 0x0203, 0x1122334455667788, "pay", 3), 0);
    static const unsigned char expected[] = {
        1, 0, 3, 2, 3, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 'p', 'a', 'y'};
    unsigned char data[64];
    assert_int_equal(read_some(fixture->peer, data, sizeof data), sizeof expected);
    assert_memory_equal(data, expected, sizeof expected);
}

static void several_frames_in_one_delivery(void **state)
{
    struct fixture *fixture = *state;
    struct frame_stream other;
    frame_stream_init(&other, TAKE_DESCRIPTOR(fixture->peer), RECEIVE_LIMIT, SEND_LIMIT);
    assert_int_equal(frame_send(&other, 1, 10, "one", 3), 0);
    assert_int_equal(frame_send(&other, 2, 20, "", 0), 0);
    assert_int_equal(frame_send(&other, 3, 30, "three", 5), 0);
    assert_int_equal(frame_fill(&fixture->stream), 0);
    expect_frame(&fixture->stream, 1, 10, "one");
    expect_frame(&fixture->stream, 2, 20, "");
    expect_frame(&fixture->stream, 3, 30, "three");
    expect_none(&fixture->stream);
    frame_stream_close(&other);
}

static void frames_may_come_byte_by_byte(void **state)
{
    struct fixture *fixture = *state;
    char wire[256];
    struct frame_header first = {.version = FRAME_VERSION, .type = 1, .length = 5, .tag = 11};
    struct frame_header second = {.version = FRAME_VERSION, .type = 2, .length = 0, .tag = 22};
    size_t whole = 0;
    memcpy(wire, &first, sizeof first);
    memcpy(wire + sizeof first, "first", 5);
    memcpy(wire + sizeof first + 5, &second, sizeof second);
    whole = sizeof first + 5 + sizeof second;
    for (size_t sent = 0; sent < whole; sent++) {
        expect_none(&fixture->stream);
        peer_sends(fixture, wire + sent, 1);
        assert_int_equal(frame_fill(&fixture->stream), 0);
        if (sent + 1 == sizeof first + 5)
            expect_frame(&fixture->stream, 1, 11, "first");
    }
    expect_frame(&fixture->stream, 2, 22, "");
    expect_none(&fixture->stream);
}

static void send_large(void *user)
{
    struct fixture *fixture = user;
    static char payload[RECEIVE_LIMIT];
    child_check(set_nonblocking(fixture->peer, false) == 0);
    struct frame_header header = {.version = FRAME_VERSION, .type = 1, .length = RECEIVE_LIMIT};
    for (int i = 0; i < 3; i++) {
        memset(payload, 'a' + i, sizeof payload);
        child_check(write_all(fixture->peer, &header, sizeof header) == 0);
        child_check(write_all(fixture->peer, payload, sizeof payload) == 0);
    }
}

static void the_largest_frames_are_taken_and_their_memory_given_back(void **state)
{
    struct fixture *fixture = *state;
    pid_t sender = start_child(send_large, fixture);
    fixture->peer = close_fd(fixture->peer);
    struct pollfd wait = {.fd = fixture->stream.fd, .events = POLLIN};
    for (int i = 0; i < 3; i++) {
        struct frame_header header;
        const char *data;
        while (frame_next(&fixture->stream, &header, &data, NULL) == 0) {
            assert_int_equal(poll(&wait, 1, 60000), 1);
            assert_int_equal(frame_fill(&fixture->stream), 0);
        }
        assert_int_equal(header.length, RECEIVE_LIMIT);
        for (size_t k = 0; k < RECEIVE_LIMIT; k++) {
            if (data[k] != 'a' + i)
                fail_msg("byte %zu of frame %d is wrong", k, i);
        }
    }
    expect_none(&fixture->stream);
    assert_int_equal(fixture->stream.in.capacity, 0);
    int status;
    assert_int_equal(waitpid(sender, &status, 0), sender);
    assert_int_equal(status, 0);
}

static void a_payload_that_is_too_large_is_refused_by_its_header(void **state)
{
    static const uint32_t lengths[] = {RECEIVE_LIMIT + 1, INT32_MAX, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
        struct fixture *fixture = *state;
        struct frame_header header;
        const char *data;
        struct failure why = {0};
        peer_sends_header(fixture, FRAME_VERSION, lengths[i]);
        assert_int_equal(frame_fill(&fixture->stream), 0);
        assert_int_equal(frame_next(&fixture->stream, &header, &data, &why), -EMSGSIZE);
        assert_int_equal(why.code, EMSGSIZE);
        assert_non_null(strstr(why.text, "307200"));
        assert_true(fixture->stream.in.capacity < RECEIVE_LIMIT);
        /* for good: the stream has lost its place */
        assert_int_equal(frame_next(&fixture->stream, &header, &data, NULL), -EMSGSIZE);
        assert_int_equal(close_stream(state), 0);
        assert_int_equal(open_stream(state), 0);
    }
}

static void another_version_is_refused(void **state)
{
    static const uint16_t versions[] = {0, FRAME_VERSION + 1, UINT16_MAX};
    for (size_t i = 0; i < ARRAY_LENGTH(versions); i++) {
        struct fixture *fixture = *state;
        struct frame_header header;
        const char *data;
        struct failure why = {0};
        peer_sends_header(fixture, versions[i], 0);
        assert_int_equal(frame_fill(&fixture->stream), 0);
        assert_int_equal(frame_next(&fixture->stream, &header, &data, &why), -EPROTO);
        assert_int_equal(why.code, EPROTO);
        assert_int_equal(frame_next(&fixture->stream, &header, &data, NULL), -EPROTO);
        assert_int_equal(close_stream(state), 0);
        assert_int_equal(open_stream(state), 0);
    }
}

static void good_frames_before_a_bad_one_count(void **state)
{
    struct fixture *fixture = *state;
    struct frame_header header;
    const char *data;
    peer_sends_header(fixture, FRAME_VERSION, 0);
    peer_sends_header(fixture, FRAME_VERSION + 1, 0);
    assert_int_equal(frame_fill(&fixture->stream), 0);
    expect_frame(&fixture->stream, 5, 6, "");
    assert_int_equal(frame_next(&fixture->stream, &header, &data, NULL), -EPROTO);
}

static void nothing_there_is_eagain_and_takes_no_memory(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(frame_fill(&fixture->stream), -EAGAIN);
    assert_int_equal(fixture->stream.in.capacity, 0);
    expect_none(&fixture->stream);
}

static void the_end_comes_after_what_was_sent(void **state)
{
    struct fixture *fixture = *state;
    peer_sends_header(fixture, FRAME_VERSION, 0);
    peer_sends_header(fixture, FRAME_VERSION, 100);
    fixture->peer = close_fd(fixture->peer);
    assert_int_equal(frame_fill(&fixture->stream), 0);
    expect_frame(&fixture->stream, 5, 6, "");
    expect_none(&fixture->stream);
    assert_int_equal(frame_fill(&fixture->stream), -EPIPE);
    expect_none(&fixture->stream);
}

static void a_frame_stays_where_it_is_until_the_next_call(void **state)
{
    struct fixture *fixture = *state;
    struct frame_header header;
    const char *data;
    struct frame_header sent = {.version = FRAME_VERSION, .length = 3};
    peer_sends(fixture, &sent, sizeof sent);
    peer_sends(fixture, "abc", 3);
    assert_int_equal(frame_fill(&fixture->stream), 0);
    assert_int_equal(frame_next(&fixture->stream, &header, &data, NULL), 1);
    assert_int_equal(frame_send(&fixture->stream, 1, 1, "other", 5), 0);
    assert_memory_equal(data, "abc", 3);
    /* filling again is such a call, and the frame is not given out twice */
    assert_int_equal(frame_fill(&fixture->stream), -EAGAIN);
    expect_none(&fixture->stream);
}

/* Take everything the stream sends until `frames` frames of `length` bytes came. */
static void drain(struct fixture *fixture, int frames, size_t length)
{
    struct frame_stream other;
    frame_stream_init(&other, TAKE_DESCRIPTOR(fixture->peer), RECEIVE_LIMIT, SEND_LIMIT);
    for (int i = 0; i < frames; i++) {
        struct frame_header header;
        const char *data;
        while (frame_next(&other, &header, &data, NULL) == 0) {
            assert_int_equal(frame_flush(&fixture->stream), 0);
            assert_int_equal(frame_fill(&other), 0);
        }
        assert_int_equal(header.tag, i);
        assert_int_equal(header.length, length);
        assert_int_equal(data[0], (char)i);
        assert_int_equal(data[length - 1], (char)i);
    }
    assert_int_equal(frame_flush(&fixture->stream), 0);
    assert_int_equal(frame_fill(&other), -EAGAIN);
    frame_stream_close(&other);
}

static void a_peer_that_does_not_read_is_noticed_and_costs_no_more(void **state)
{
    struct fixture *fixture = *state;
    static char payload[5000];
    int frames = 0, r;
    do {
        assert_true(frames < 1000);
        memset(payload, frames, sizeof payload);
        r = frame_send(&fixture->stream, 1, (uint64_t)frames, payload, sizeof payload);
    } while (r == 0 && ++frames);
    assert_int_equal(r, -ENOSPC);
    assert_true(frame_wants_write(&fixture->stream));
    assert_true(fixture->stream.out.length <= SEND_LIMIT);
    assert_true(fixture->stream.out.length > SEND_LIMIT - sizeof payload - 16);
    assert_int_equal(frame_flush(&fixture->stream), 0);
    assert_true(frame_wants_write(&fixture->stream));
    /* what was accepted arrives whole, and what was refused not even in part */
    drain(fixture, frames, sizeof payload);
    assert_false(frame_wants_write(&fixture->stream));
}

static void what_the_peer_took_makes_room_for_more(void **state)
{
    struct fixture *fixture = *state;
    static char payload[5000];
    struct frame_stream large; /* more may wait than a socket holds */
    frame_stream_init(&large, TAKE_DESCRIPTOR(fixture->stream.fd), RECEIVE_LIMIT, 1024 * 1024);
    while (frame_send(&large, 1, 0, payload, sizeof payload) == 0)
        ;
    while (large.sent < 2 * sizeof payload) {
        assert_true(read_some(fixture->peer, payload, sizeof payload) > 0);
        assert_int_equal(frame_flush(&large), 0);
        assert_true(frame_wants_write(&large));
    }
    assert_int_equal(frame_send(&large, 1, 0, payload, sizeof payload), 0);
    frame_stream_close(&large);
}

static void a_large_frame_that_is_sent_leaves_no_memory_behind(void **state)
{
    enum {
        LARGE = 3 * 1024 * 1024
    };
    struct fixture *fixture = *state;
    struct frame_stream large;
    frame_stream_init(&large, TAKE_DESCRIPTOR(fixture->stream.fd), RECEIVE_LIMIT, LARGE + 16);
    _cleanup_free_ char *payload = calloc(1, LARGE);
    assert_non_null(payload);
    assert_int_equal(frame_send(&large, 1, 0, payload, LARGE), 0);
    size_t received = 0;
    for (ssize_t n; (n = read_some(fixture->peer, payload, LARGE)) > 0; received += (size_t)n)
        assert_int_equal(frame_flush(&large), 0);
    assert_int_equal(received, LARGE + 16);
    assert_false(frame_wants_write(&large));
    assert_int_equal(large.out.capacity, 0);
    frame_stream_close(&large);
}

static void a_frame_that_could_never_be_sent_is_refused(void **state)
{
    struct fixture *fixture = *state;
    static char payload[SEND_LIMIT];
    assert_int_equal(frame_send(&fixture->stream, 1, 0, payload, SEND_LIMIT - 15), -ENOSPC);
    assert_false(frame_wants_write(&fixture->stream));
    assert_int_equal(frame_send(&fixture->stream, 1, 0, payload, SEND_LIMIT - 16), 0);
    assert_int_equal(frame_send(&fixture->stream, 1, 0, payload, (size_t)UINT32_MAX + 1),
                     -EMSGSIZE);
}

static void a_peer_that_is_gone_is_an_error_without_signal(void **state)
{
    struct fixture *fixture = *state;
    fixture->peer = close_fd(fixture->peer);
    assert_int_equal(frame_send(&fixture->stream, 1, 0, "x", 1), -EPIPE);
    assert_int_equal(frame_send(&fixture->stream, 1, 0, "x", 1), -EPIPE);
    assert_int_equal(frame_fill(&fixture->stream), -EPIPE);
}

static void closing_gives_everything_back(void **state)
{
    struct fixture *fixture = *state;
    struct frame_header header = {.version = FRAME_VERSION, .length = 10};
    peer_sends(fixture, &header, sizeof header);
    assert_int_equal(frame_fill(&fixture->stream), 0);
    int fd = fixture->stream.fd;
    frame_stream_close(&fixture->stream);
    assert_int_equal(fixture->stream.fd, -1);
    assert_null(fixture->stream.in.data);
    char byte;
    assert_int_equal(read_some(fd, &byte, 1), -EBADF);
    assert_int_equal(frame_send(&fixture->stream, 1, 0, "x", 1), -EPIPE);
    assert_true(frame_fill(&fixture->stream) < 0);
    frame_stream_close(&fixture->stream);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_stream, close_stream)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(frames_go_there_and_back),
        TEST(the_bytes_on_the_wire_are_as_documented),
        TEST(several_frames_in_one_delivery),
        TEST(frames_may_come_byte_by_byte),
        TEST(the_largest_frames_are_taken_and_their_memory_given_back),
        TEST(a_payload_that_is_too_large_is_refused_by_its_header),
        TEST(another_version_is_refused),
        TEST(good_frames_before_a_bad_one_count),
        TEST(nothing_there_is_eagain_and_takes_no_memory),
        TEST(the_end_comes_after_what_was_sent),
        TEST(a_frame_stays_where_it_is_until_the_next_call),
        TEST(a_peer_that_does_not_read_is_noticed_and_costs_no_more),
        TEST(what_the_peer_took_makes_room_for_more),
        TEST(a_large_frame_that_is_sent_leaves_no_memory_behind),
        TEST(a_frame_that_could_never_be_sent_is_refused),
        TEST(a_peer_that_is_gone_is_an_error_without_signal),
        TEST(closing_gives_everything_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
