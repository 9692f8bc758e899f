#include "unit.h"

#include <sys/socket.h>

#include "base/fdio.h"
#include "keeper/descriptor_store.h"

struct fixture {
    int anchor, keeper;
    int descriptors; /* open when the test began */
};

static int open_pair(void **state)
{
    static struct fixture fixture;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return -1;
    fixture = (struct fixture){.anchor = ends[0], .keeper = ends[1]};
    fixture.descriptors = open_descriptors();
    *state = &fixture;
    return 0;
}

static int close_pair(void **state)
{
    struct fixture *fixture = *state;
    close_fd(fixture->anchor);
    close_fd(fixture->keeper);
    return 0;
}

static void a_message_arrives_as_it_was_sent(void **state)
{
    struct fixture *fixture = *state;
    struct stored_message sent = {
        .type = STORED_PUT,
        .uid = 1234,
        .id = {1, 2, 3, 15},
        .limits = {.memory_bytes = 1ULL << 40, .disk_bytes = 5, .cpu_millis = 1500, .pids = 77},
        .text = "text"};
    int fds[STORED_DESCRIPTORS] = {file_with("", 0), file_with("1", 1), file_with("12", 2),
                                   file_with("123", 3)};
    assert_int_equal(stored_send(fixture->anchor, &sent, fds, STORED_DESCRIPTORS), 0);
    for (int i = 0; i < STORED_DESCRIPTORS; i++)
        close(fds[i]);
    struct stored_message received;
    size_t count;
    assert_int_equal(stored_receive(fixture->keeper, &received, fds, &count), 1);
    assert_memory_equal(&received, &sent, sizeof sent);
    assert_int_equal(count, STORED_DESCRIPTORS);
    for (int i = 0; i < STORED_DESCRIPTORS; i++) {
        assert_int_equal(lseek(fds[i], 0, SEEK_END), i);
        close(fds[i]);
    }
}

static void a_half_made_sandbox_has_fewer_descriptors(void **state)
{
    struct fixture *fixture = *state;
    struct stored_message message = {.type = STORED_PUT};
    int fds[STORED_DESCRIPTORS] = {fixture->anchor, fixture->keeper};
    size_t count = 99;
    assert_int_equal(stored_send(fixture->anchor, &message, fds, 2), 0);
    assert_int_equal(stored_receive(fixture->keeper, &message, fds, &count), 1);
    assert_int_equal(count, 2);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(stored_send(fixture->anchor, &message, NULL, 0), 0);
    assert_int_equal(stored_receive(fixture->keeper, &message, fds, &count), 1);
    assert_int_equal(count, 0);
}

static void text_always_ends(void **state)
{
    struct fixture *fixture = *state;
    struct stored_message message = {.type = STORED_FAILED};
    int fds[STORED_DESCRIPTORS];
    size_t count;
    memset(message.text, 'x', sizeof message.text);
    assert_int_equal(stored_send(fixture->keeper, &message, NULL, 0), 0);
    assert_int_equal(stored_receive(fixture->anchor, &message, fds, &count), 1);
    assert_int_equal(strnlen(message.text, sizeof message.text), sizeof message.text - 1);
}

static void messages_of_another_size_are_refused_without_leaks(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        size_t length;
        int result;
    } cases[] = {{1, -EPROTO},
                 {sizeof(struct stored_message) - 1, -EPROTO},
                 {sizeof(struct stored_message) + 1, -EMSGSIZE},
                 {0, 0}};
    static const char bytes[sizeof(struct stored_message) + 1];
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct stored_message message;
        int fds[STORED_DESCRIPTORS] = {fixture->anchor, fixture->anchor, fixture->anchor,
                                       fixture->anchor};
        size_t count;
        assert_int_equal(
            send_with_fds(fixture->anchor, bytes, cases[i].length, fds, STORED_DESCRIPTORS), 0);
        assert_int_equal(stored_receive(fixture->keeper, &message, fds, &count), cases[i].result);
        assert_int_equal(open_descriptors(), fixture->descriptors);
    }
}

static void more_descriptors_than_wanted_are_closed(void **state)
{
    struct fixture *fixture = *state;
    struct stored_message message = {.type = STORED_PUT};
    int many[FDIO_MAX_FDS], fds[STORED_DESCRIPTORS];
    size_t count;
    for (size_t i = 0; i < FDIO_MAX_FDS; i++)
        many[i] = fixture->anchor;
    assert_int_equal(send_with_fds(fixture->anchor, &message, sizeof message, many, FDIO_MAX_FDS),
                     0);
    assert_int_equal(stored_receive(fixture->keeper, &message, fds, &count), 1);
    assert_int_equal(count, STORED_DESCRIPTORS);
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    assert_int_equal(open_descriptors(), fixture->descriptors);
}

static void nothing_is_eagain_and_the_end_is_zero(void **state)
{
    struct fixture *fixture = *state;
    struct stored_message message = {.type = STORED_READY};
    int fds[STORED_DESCRIPTORS];
    size_t count;
    assert_int_equal(stored_receive(fixture->keeper, &message, fds, &count), -EAGAIN);
    assert_int_equal(stored_send(fixture->anchor, &message, NULL, 0), 0);
    fixture->anchor = close_fd(fixture->anchor);
    assert_int_equal(stored_receive(fixture->keeper, &message, fds, &count), 1);
    assert_int_equal(stored_receive(fixture->keeper, &message, fds, &count), 0);
    assert_int_equal(stored_send(fixture->keeper, &message, NULL, 0), -EPIPE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(a_message_arrives_as_it_was_sent),
        TEST(a_half_made_sandbox_has_fewer_descriptors),
        TEST(text_always_ends),
        TEST(messages_of_another_size_are_refused_without_leaks),
        TEST(more_descriptors_than_wanted_are_closed),
        TEST(nothing_is_eagain_and_the_end_is_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
