/* The part of base/fdio that passes descriptors over sockets. */
#include "unit.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/fdio.h"

struct fixture {
    int near, far;
    int descriptors; /* open when the test began */
};

static int open_pair(void **state)
{
    static struct fixture fixture;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -1;
    fixture = (struct fixture){.near = ends[0], .far = ends[1]};
    fixture.descriptors = open_descriptors();
    *state = &fixture;
    return 0;
}

static int close_pair(void **state)
{
    struct fixture *fixture = *state;
    close_fd(fixture->near);
    close_fd(fixture->far);
    return 0;
}

/* Send raw, as a peer that does not use our code: `count` copies of one descriptor. */
static void send_raw(int socket, const void *data, size_t length, size_t count)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int) * 64)];
        struct cmsghdr aligned;
    } control = {0};
    assert_true(count <= 64);
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = length};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * count);
    for (size_t i = 0; i < count; i++)
        memcpy(CMSG_DATA(header) + i * sizeof(int), &socket, sizeof socket);
    assert_int_equal(sendmsg(socket, &message, MSG_NOSIGNAL), length);
}

static void a_descriptor_arrives_as_the_same_file(void **state)
{
    struct fixture *fixture = *state;
    int ends[2], fds[FDIO_MAX_FDS];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(send_with_fds(fixture->near, "message", 7, &ends[1], 1), 0);
    close(ends[1]);
    char data[16];
    size_t count = ARRAY_LENGTH(fds);
    assert_int_equal(receive_with_fds(fixture->far, data, sizeof data, fds, &count), 7);
    assert_memory_equal(data, "message", 7);
    assert_int_equal(count, 1);
    assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
    char byte;
    assert_int_equal(write_all(fds[0], "p", 1), 0);
    assert_int_equal(read_exactly(ends[0], &byte, 1), 0);
    assert_int_equal(byte, 'p');
    close(fds[0]);
    assert_int_equal(read_exactly(ends[0], &byte, 1), -EPIPE);
    close(ends[0]);
}

static void as_many_as_allowed_arrive_in_order(void **state)
{
    struct fixture *fixture = *state;
    int sent[FDIO_MAX_FDS], fds[FDIO_MAX_FDS];
    for (size_t i = 0; i < FDIO_MAX_FDS; i++)
        sent[i] = file_with("01234567", i);
    assert_int_equal(send_with_fds(fixture->near, "x", 1, sent, FDIO_MAX_FDS), 0);
    char data[1];
    size_t count = FDIO_MAX_FDS;
    assert_int_equal(receive_with_fds(fixture->far, data, sizeof data, fds, &count), 1);
    assert_int_equal(count, FDIO_MAX_FDS);
    for (size_t i = 0; i < FDIO_MAX_FDS; i++) {
        struct stat status;
        assert_int_equal(fstat(fds[i], &status), 0);
        assert_int_equal(status.st_size, i);
        close(sent[i]);
        close(fds[i]);
    }
}

static void more_than_allowed_are_not_sent(void **state)
{
    struct fixture *fixture = *state;
    int fds[FDIO_MAX_FDS + 1] = {0};
    char data[1];
    assert_int_equal(send_with_fds(fixture->near, "x", 1, fds, FDIO_MAX_FDS + 1), -EINVAL);
    assert_int_equal(set_nonblocking(fixture->far, true), 0);
    assert_int_equal(receive_with_fds(fixture->far, data, 1, NULL, NULL), -EAGAIN);
}

static void a_message_needs_no_descriptors(void **state)
{
    struct fixture *fixture = *state;
    char data[16];
    int fds[2];
    size_t count = 2;
    assert_int_equal(send_with_fds(fixture->near, "bare", 4, NULL, 0), 0);
    assert_int_equal(receive_with_fds(fixture->far, data, sizeof data, fds, &count), 4);
    assert_int_equal(count, 0);
    assert_memory_equal(data, "bare", 4);
}

static void descriptors_beyond_the_room_are_closed(void **state)
{
    struct fixture *fixture = *state;
    for (size_t room = 0; room <= 3; room++) {
        char data[1];
        int fds[4] = {-7, -7, -7, -7};
        size_t count = room;
        send_raw(fixture->near, "x", 1, 3);
        assert_int_equal(receive_with_fds(fixture->far, data, 1, fds, &count), 1);
        assert_int_equal(count, room);
        assert_int_equal(fds[room], -7);
        assert_int_equal(open_descriptors(), fixture->descriptors + (int)room);
        for (size_t i = 0; i < count; i++)
            close(fds[i]);
    }
    char data[1];
    send_raw(fixture->near, "x", 1, 3);
    assert_int_equal(receive_with_fds(fixture->far, data, 1, NULL, NULL), 1);
    assert_int_equal(open_descriptors(), fixture->descriptors);
}

static void a_flood_of_descriptors_is_refused_and_leaves_none(void **state)
{
    struct fixture *fixture = *state;
    static const size_t floods[] = {FDIO_MAX_FDS + 1, 40, 64};
    for (size_t i = 0; i < ARRAY_LENGTH(floods); i++) {
        char data[1];
        int fds[FDIO_MAX_FDS];
        size_t count = FDIO_MAX_FDS;
        send_raw(fixture->near, "x", 1, floods[i]);
        assert_int_equal(receive_with_fds(fixture->far, data, 1, fds, &count), -EMSGSIZE);
        assert_int_equal(count, 0);
        assert_int_equal(open_descriptors(), fixture->descriptors);
    }
}

static void a_message_that_does_not_fit_is_refused_whole(void **state)
{
    struct fixture *fixture = *state;
    struct {
        char data[4];
        char guard[4];
    } place = {.guard = "grd"};
    int fds[2];
    size_t count = 2;
    send_raw(fixture->near, "12345", 5, 2);
    assert_int_equal(receive_with_fds(fixture->far, place.data, 4, fds, &count), -EMSGSIZE);
    assert_string_equal(place.guard, "grd");
    assert_int_equal(count, 0);
    assert_int_equal(open_descriptors(), fixture->descriptors);
    /* the next one is whole again, and one that just fits is taken */
    assert_int_equal(send_with_fds(fixture->near, "1234", 4, NULL, 0), 0);
    assert_int_equal(receive_with_fds(fixture->far, place.data, 4, NULL, NULL), 4);
    assert_memory_equal(place.data, "1234", 4);
}

static void the_end_of_the_peer_is_zero(void **state)
{
    struct fixture *fixture = *state;
    char data[4];
    int fds[2];
    size_t count = 2;
    fixture->near = close_fd(fixture->near);
    assert_int_equal(receive_with_fds(fixture->far, data, sizeof data, fds, &count), 0);
    assert_int_equal(count, 0);
}

static void an_empty_message_brings_no_descriptors(void **state)
{
    struct fixture *fixture = *state;
    char data[4];
    int fds[2];
    size_t count = 2;
    send_raw(fixture->near, "", 0, 2);
    assert_int_equal(receive_with_fds(fixture->far, data, sizeof data, fds, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(open_descriptors(), fixture->descriptors);
}

static void nothing_to_receive_is_eagain(void **state)
{
    struct fixture *fixture = *state;
    char data[4];
    int fds[2];
    size_t count = 2;
    assert_int_equal(set_nonblocking(fixture->far, true), 0);
    assert_int_equal(receive_with_fds(fixture->far, data, sizeof data, fds, &count), -EAGAIN);
    assert_int_equal(count, 0);
}

static void a_peer_that_does_not_receive_is_eagain(void **state)
{
    struct fixture *fixture = *state;
    char data[1024] = {0};
    assert_int_equal(set_nonblocking(fixture->near, true), 0);
    int r;
    while ((r = send_with_fds(fixture->near, data, sizeof data, NULL, 0)) == 0)
        ;
    assert_int_equal(r, -EAGAIN);
}

static void a_peer_that_is_gone_is_an_error_without_signal(void **state)
{
    struct fixture *fixture = *state;
    fixture->far = close_fd(fixture->far);
    assert_int_equal(send_with_fds(fixture->near, "x", 1, NULL, 0), -EPIPE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(a_descriptor_arrives_as_the_same_file),
        TEST(as_many_as_allowed_arrive_in_order),
        TEST(more_than_allowed_are_not_sent),
        TEST(a_message_needs_no_descriptors),
        TEST(descriptors_beyond_the_room_are_closed),
        TEST(a_flood_of_descriptors_is_refused_and_leaves_none),
        TEST(a_message_that_does_not_fit_is_refused_whole),
        TEST(the_end_of_the_peer_is_zero),
        TEST(an_empty_message_brings_no_descriptors),
        TEST(nothing_to_receive_is_eagain),
        TEST(a_peer_that_does_not_receive_is_eagain),
        TEST(a_peer_that_is_gone_is_an_error_without_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
