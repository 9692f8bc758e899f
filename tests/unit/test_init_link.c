/* The link to init, with a test that plays init: an init that is slow, and one that makes things up. */
#include "run_loop.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "base/fdio.h"
#include "shim/init_link.h"

struct heard {
    size_t started, failed, exited, gone;
    uint64_t number;
    int value;
};

struct fixture {
    struct loop *loop;
    int init, shim_end, null_fd;
    struct init_link *link;
    struct heard kernel, commands;
};

static void on_started(void *user, uint64_t number, int pid, int pidfd)
{
    struct heard *heard = user;
    heard->started++;
    heard->number = number;
    heard->value = pid;
    (void)close_fd(pidfd);
}

static void on_failed(void *user, uint64_t number, enum init_step step, int code)
{
    struct heard *heard = user;
    heard->failed++;
    heard->number = number;
    heard->value = code;
    (void)step;
}

static void on_exited(void *user, uint64_t number, int wait_status)
{
    struct heard *heard = user;
    heard->exited++;
    heard->number = number;
    heard->value = wait_status;
}

static void on_gone(void *user)
{
    struct heard *heard = user;
    heard->gone++;
}

static const struct init_events kernel_events = {on_started, on_failed, on_exited, on_gone};
static const struct init_events command_events = {on_started, on_failed, on_exited, NULL};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    int ends[2];
    fixture->loop = loop_new();
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    fixture->init = ends[0];
    fixture->shim_end = ends[1];
    assert_int_equal(set_nonblocking(fixture->init, true), 0);
    fixture->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    fixture->link = init_link_new(fixture->loop, fixture->shim_end);
    init_link_listen(fixture->link, INIT_KERNEL, &kernel_events, &fixture->kernel);
    init_link_listen(fixture->link, INIT_COMMANDS, &command_events, &fixture->commands);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    init_link_free(fixture->link);
    (void)close_fd(fixture->init);
    close(fixture->shim_end);
    close(fixture->null_fd);
    loop_free(fixture->loop);
    free(fixture);
    return 0;
}

static int start_large(struct fixture *fixture, uint64_t number)
{
    static char text[MAX_COMMAND_BYTES];
    struct failure why;
    memset(text, 'x', sizeof text - 1);
    const char *const arguments[] = {"echo", text, NULL};
    struct init_command command = {.arguments = arguments,
                                   .stdio = {fixture->null_fd, fixture->null_fd, fixture->null_fd}};
    return init_link_start(fixture->link, (struct init_name){INIT_COMMANDS, number}, &command,
                           &why);
}

/* What init reads next; 0: nothing is there. */
static uint32_t next_type(struct fixture *fixture, struct init_message *message)
{
    static char datagram[INIT_DATAGRAM_BYTES];
    int fds[3];
    size_t count = 3;
    ssize_t n = receive_with_fds(fixture->init, datagram, sizeof datagram, fds, &count);
    if (n <= 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    memcpy(message, datagram, sizeof *message);
    return message->type;
}

/* An init that reads nothing for a while: nothing small gets lost, and all stays in order. */
static void slow_init(void **state)
{
    struct fixture *fixture = *state;
    int starts = 0, r;
    while ((r = start_large(fixture, 1)) == 0)
        starts++;
    assert_int_equal(r, -EAGAIN);
    assert_true(starts > 1);
    struct init_name name = {INIT_COMMANDS, 1};
    int signals = 0;
    for (; signals < 1000; signals++)
        assert_int_equal(init_link_signal(fixture->link, name, 1 + signals % 60), 0);
    assert_int_equal(init_link_kill_others(fixture->link), 0);
    assert_int_equal(start_large(fixture, 2), -EAGAIN); /* not before those */
    struct init_message message;
    int seen = 0;
    for (int i = 0; i < 5000 && seen < starts + signals + 1; i++) {
        uint32_t type = next_type(fixture, &message);
        run_for(fixture->loop, 1);
        if (type == 0)
            continue;
        if (seen < starts)
            assert_int_equal(type, INIT_START);
        else if (seen < starts + signals)
            assert_true(type == INIT_SIGNAL && message.value == 1 + (seen - starts) % 60);
        else
            assert_int_equal(type, INIT_KILL_OTHERS);
        seen++;
    }
    assert_int_equal(seen, starts + signals + 1);
    assert_int_equal(start_large(fixture, 2), 0);
}

static void say(struct fixture *fixture, uint32_t type, uint64_t tag, int value)
{
    struct init_message message = {
        .version = INIT_PROTOCOL_VERSION, .type = type, .tag = tag, .value = value};
    assert_int_equal(send_with_fds(fixture->init, &message, sizeof message, NULL, 0), 0);
    run_for(fixture->loop, 5);
}

static void everybody_hears_of_its_own(void **state)
{
    struct fixture *fixture = *state;
    say(fixture, INIT_READY, 0, 0);
    say(fixture, INIT_STARTED, 7, 42);
    assert_int_equal(fixture->kernel.started, 1);
    assert_int_equal(fixture->kernel.number, 7);
    assert_int_equal(fixture->kernel.value, 42);
    say(fixture, INIT_EXITED, (uint64_t)INIT_COMMANDS << 56 | 9, 256);
    assert_int_equal(fixture->commands.exited, 1);
    assert_int_equal(fixture->commands.number, 9);
    assert_int_equal(fixture->commands.value, 256);
    assert_int_equal(fixture->kernel.exited, 0);
}

static void nonsense_reaches_nobody(void **state)
{
    struct fixture *fixture = *state;
    say(fixture, INIT_EXITED, UINT64_MAX, 0);
    say(fixture, INIT_EXITED, (uint64_t)INIT_CLIENTS << 56, 0);
    say(fixture, 99, 1, 0);
    assert_int_equal(send_with_fds(fixture->init, "x", 1, NULL, 0), 0);
    run_for(fixture->loop, 5);
    struct heard none = {0};
    assert_memory_equal(&fixture->kernel, &none, sizeof none);
    assert_memory_equal(&fixture->commands, &none, sizeof none);
}

static void the_end(void **state)
{
    struct fixture *fixture = *state;
    fixture->init = close_fd(fixture->init);
    RUN_UNTIL(fixture->loop, fixture->kernel.gone == 1);
    run_for(fixture->loop, 5);
    assert_int_equal(fixture->kernel.gone, 1);
    assert_true(init_link_signal(fixture->link, (struct init_name){INIT_KERNEL, 1}, 9) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(slow_init, set_up, tear_down),
        cmocka_unit_test_setup_teardown(everybody_hears_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nonsense_reaches_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_end, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
