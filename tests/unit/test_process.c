/* A process, with a test that plays init: what is asked of init, what its answers mean in whichever order, and who waits for whom. */
#include "run_loop.h"

#include "skip_time.h"

#include <fcntl.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/fdio.h"
#include "husk/limits.h"
#include "shim/leftovers.h"
#include "shim/process.h"

enum {
    NUMBER = 77,
    CLIENT_BITS = 56
};

struct fixture {
    struct loop *loop;
    int init; /* our end */
    int shim_end;
    int null_fd;
    struct init_link *link;
    struct leftovers *leftovers;
    struct process *process;
    /* what init was asked for */
    int stdio[3];
    size_t signals[65];
    size_t forgotten;
    /* what was heard */
    int pid;
    struct buffer texts[TEXT_STREAMS];
    bool ended;
    struct process_end end;
};

static void on_started(void *user, int pid)
{
    struct fixture *fixture = user;
    fixture->pid = pid;
}

static void on_output(void *user, enum text_stream stream, const char *text, size_t length)
{
    struct fixture *fixture = user;
    assert_false(fixture->ended);
    assert_true(fixture->pid > 0);
    assert_int_equal(buffer_append(&fixture->texts[stream], text, length), 0);
}

static void on_ended(void *user, const struct process_end *end)
{
    struct fixture *fixture = user;
    assert_false(fixture->ended);
    fixture->ended = true;
    fixture->end = *end;
    fixture->process = process_free(fixture->process);
}

static const struct process_events events = {on_started, on_output, on_ended};

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
    assert_non_null(fixture->link);
    fixture->leftovers = leftovers_new(fixture->loop);
    (void)signal(SIGPIPE, SIG_IGN);
    *state = fixture;
    return 0;
}

static void close_stdio(struct fixture *fixture)
{
    for (int i = 0; i < 3; i++)
        fixture->stdio[i] = close_fd(fixture->stdio[i]);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    close_stdio(fixture);
    process_free(fixture->process);
    leftovers_free(fixture->leftovers);
    init_link_free(fixture->link);
    close(fixture->init);
    close(fixture->shim_end);
    close(fixture->null_fd);
    for (size_t i = 0; i < TEXT_STREAMS; i++)
        buffer_free(&fixture->texts[i]);
    loop_free(fixture->loop);
    free(fixture);
    return 0;
}

/* Take in what the shim has asked for since. */
static void play_init(struct fixture *fixture)
{
    static char datagram[INIT_DATAGRAM_BYTES];
    for (;;) {
        struct init_message message;
        int fds[3] = {-1, -1, -1};
        size_t count = 3;
        ssize_t n = receive_with_fds(fixture->init, datagram, sizeof datagram, fds, &count);
        if (n <= 0)
            return;
        memcpy(&message, datagram, sizeof message);
        assert_int_equal(message.version, INIT_PROTOCOL_VERSION);
        assert_true(message.tag == ((uint64_t)INIT_COMMANDS << CLIENT_BITS | NUMBER));
        if (message.type == INIT_START) {
            assert_int_equal(count, 3);
            assert_int_equal(message.flags, INIT_IN | INIT_APART);
            assert_int_equal(message.argument_count, 2);
            assert_memory_equal(datagram + sizeof message, "/dir\0run\0me\0A=b", 16);
            assert_int_equal(message.string_bytes, 16);
            memcpy(fixture->stdio, fds, sizeof fds);
        } else if (message.type == INIT_SIGNAL) {
            fixture->signals[message.value]++;
        } else {
            assert_int_equal(message.type, INIT_FORGET);
            fixture->forgotten++;
        }
    }
}

static void start(struct fixture *fixture, const char *input, size_t input_length)
{
    static const char *const arguments[] = {"run", "me", NULL};
    struct failure why;
    struct process_order order = {.loop = fixture->loop,
                                  .init = fixture->link,
                                  .name = {INIT_COMMANDS, NUMBER},
                                  .command = {.arguments = arguments,
                                              .directory = "/dir",
                                              .apart = true,
                                              .environment = "A=b",
                                              .environment_bytes = 4},
                                  .leftovers = fixture->leftovers,
                                  .null_fd = fixture->null_fd,
                                  .input = input,
                                  .input_length = input_length,
                                  .events = &events,
                                  .user = fixture};
    fixture->process = process_start(&order, &why);
    assert_non_null(fixture->process);
    play_init(fixture);
    assert_true(fixture->stdio[2] > 0);
}

static void write_text(struct fixture *fixture, enum text_stream stream, const char *text)
{
    assert_int_equal(write(fixture->stdio[1 + stream], text, strlen(text)), strlen(text));
}

static void expect_text(struct fixture *fixture, enum text_stream stream, const char *text)
{
    RUN_UNTIL(fixture->loop, fixture->texts[stream].length >= strlen(text));
    assert_int_equal(fixture->texts[stream].length, strlen(text));
    assert_memory_equal(fixture->texts[stream].data, text, strlen(text));
}

static void expect_end(struct fixture *fixture, enum process_end_kind kind, int value)
{
    RUN_UNTIL(fixture->loop, fixture->ended);
    assert_int_equal(fixture->end.kind, kind);
    assert_int_equal(fixture->end.value, value);
    play_init(fixture);
    assert_int_equal(fixture->forgotten, 1);
}

/* --- its life ------------------------------------------------------------------------------- */

static void whole_life(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, NULL, 0);
    write_text(fixture, STREAM_STDOUT, "early");
    run_for(fixture->loop, 10);
    assert_int_equal(fixture->texts[STREAM_STDOUT].length, 0); /* not before it has started */
    process_started(fixture->process, 5);
    assert_int_equal(fixture->pid, 5);
    write_text(fixture, STREAM_STDERR, "err\xc3");
    expect_text(fixture, STREAM_STDOUT, "early");
    expect_text(fixture, STREAM_STDERR, "err");
    write_text(fixture, STREAM_STDERR, "\xa9\xff\xe2");
    process_exited(fixture->process, 3 << 8);
    run_for(fixture->loop, 10);
    assert_false(fixture->ended); /* its pipes are open */
    close_stdio(fixture);
    expect_end(fixture, PROCESS_EXITED, 3);
    expect_text(fixture, STREAM_STDERR, "erré\xef\xbf\xbd\xef\xbf\xbd");
    assert_int_equal(fixture->signals[SIGKILL] + fixture->signals[SIGTERM], 0);
}

static void ended_before_it_started(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, NULL, 0);
    close_stdio(fixture);
    process_failed(fixture->process, INIT_STEP_EXECUTE, ENOENT);
    if (fixture->process)
        process_started(fixture->process, 5); /* late */
    expect_end(fixture, PROCESS_FAILED, ENOENT);
    assert_int_equal(fixture->end.step, INIT_STEP_EXECUTE);
    assert_int_equal(fixture->pid, 0);
}

static void killed_by_a_signal(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, NULL, 0);
    process_started(fixture->process, 5);
    process_exited(fixture->process, SIGSEGV);
    process_exited(fixture->process, 0); /* init makes things up */
    process_failed(fixture->process, INIT_STEP_FORK, EAGAIN);
    close_stdio(fixture);
    expect_end(fixture, PROCESS_SIGNALLED, SIGSEGV);
}

static void held_output_stays_in_the_pipe(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, NULL, 0);
    process_started(fixture->process, 5);
    process_hold(fixture->process, true);
    write_text(fixture, STREAM_STDOUT, "waits");
    close_stdio(fixture);
    process_exited(fixture->process, 0);
    for (int i = 0; i < 5; i++) {
        skip_time(600);
        run_for(fixture->loop, 5);
    }
    assert_false(fixture->ended);
    assert_int_equal(fixture->texts[STREAM_STDOUT].length, 0);
    process_hold(fixture->process, false);
    expect_text(fixture, STREAM_STDOUT, "waits");
    expect_end(fixture, PROCESS_EXITED, 0);
}

/* --- stdin ---------------------------------------------------------------------------------- */

static void input_in_pieces(void **state)
{
    struct fixture *fixture = *state;
    static char input[300 * KIB], got[sizeof input + 1];
    for (size_t i = 0; i < sizeof input; i++)
        input[i] = (char)(i * 7);
    start(fixture, input, sizeof input);
    process_started(fixture->process, 5);
    size_t length = 0;
    assert_int_equal(set_nonblocking(fixture->stdio[0], true), 0);
    for (int i = 0; i < 1000; i++) {
        run_for(fixture->loop, 1);
        ssize_t n = read(fixture->stdio[0], got + length, sizeof got - length);
        if (n == 0)
            break;
        length += n > 0 ? (size_t)n : 0;
    }
    assert_int_equal(length, sizeof input);
    assert_memory_equal(got, input, sizeof input);
}

static void input_that_is_not_wanted(void **state)
{
    struct fixture *fixture = *state;
    static char input[300 * KIB];
    start(fixture, input, sizeof input);
    process_started(fixture->process, 5);
    run_for(fixture->loop, 5);
    fixture->stdio[0] = close_fd(fixture->stdio[0]);
    run_for(fixture->loop, 5);
    write_text(fixture, STREAM_STDOUT, "goes on");
    expect_text(fixture, STREAM_STDOUT, "goes on");
}

/* --- the end -------------------------------------------------------------------------------- */

static void somebody_holds_the_pipes(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, NULL, 0);
    process_started(fixture->process, 5);
    process_exited(fixture->process, 0);
    skip_time(499);
    run_for(fixture->loop, 5);
    skip_time(501);
    expect_end(fixture, PROCESS_EXITED, 0);
    /* Whoever it is can write on, as much as it wants. */
    char block[16 * KIB] = {0};
    assert_int_equal(set_nonblocking(fixture->stdio[1], true), 0);
    for (size_t written = 0; written < 1 * MIB;) {
        ssize_t n = write(fixture->stdio[1], block, sizeof block);
        assert_true(n > 0 || errno == EAGAIN);
        written += n > 0 ? (size_t)n : 0;
        skip_time(100);
        run_for(fixture->loop, 1);
    }
}

/* As those have that help with packages. */
static void somebody_holds_the_pipes_of_one_without_leftovers(void **state)
{
    struct fixture *fixture = *state;
    fixture->leftovers = leftovers_free(fixture->leftovers);
    start(fixture, NULL, 0);
    process_started(fixture->process, 5);
    process_exited(fixture->process, 0);
    skip_time(501);
    expect_end(fixture, PROCESS_EXITED, 0);
    assert_int_equal(write(fixture->stdio[1], "x", 1), -1);
    assert_int_equal(errno, EPIPE);
}

static void stopping(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, NULL, 0);
    process_started(fixture->process, 5);
    process_stop(fixture->process);
    process_stop(fixture->process);
    play_init(fixture);
    assert_int_equal(fixture->signals[SIGTERM], 1);
    skip_time(1500);
    run_for(fixture->loop, 5);
    play_init(fixture);
    assert_int_equal(fixture->signals[SIGKILL], 0);
    skip_time(600);
    run_for(fixture->loop, 5);
    play_init(fixture);
    assert_int_equal(fixture->signals[SIGKILL], 1);
    process_exited(fixture->process, SIGKILL);
    close_stdio(fixture);
    expect_end(fixture, PROCESS_SIGNALLED, SIGKILL);
}

/* It ends by SIGTERM, and what it started does not: that gets its time, and then SIGKILL. */
static void stopping_what_is_left(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, NULL, 0);
    process_started(fixture->process, 5);
    process_stop(fixture->process);
    process_exited(fixture->process, SIGTERM);
    skip_time(1500);
    run_for(fixture->loop, 5);
    play_init(fixture);
    assert_false(fixture->ended);
    assert_int_equal(fixture->signals[SIGKILL], 0);
    skip_time(600);
    run_for(fixture->loop, 5);
    play_init(fixture);
    assert_int_equal(fixture->signals[SIGKILL], 1);
    assert_false(fixture->ended);
    close_stdio(fixture);
    expect_end(fixture, PROCESS_SIGNALLED, SIGTERM);
}

static void one_that_does_not_end(void **state)
{
    struct fixture *fixture = *state;
    start(fixture, NULL, 0);
    process_started(fixture->process, 5);
    process_stop(fixture->process);
    for (int i = 0; i < 8 && !fixture->ended; i++) {
        skip_time(1000);
        run_for(fixture->loop, 5);
    }
    expect_end(fixture, PROCESS_LOST, 0);
}

static void no_descriptor_is_left(void **state)
{
    struct fixture *fixture = *state;
    int before = open_descriptors();
    start(fixture, "x", 1);
    process_started(fixture->process, 5);
    close_stdio(fixture);
    process_exited(fixture->process, 0);
    RUN_UNTIL(fixture->loop, fixture->ended);
    assert_int_equal(open_descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_life, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ended_before_it_started, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_by_a_signal, set_up, tear_down),
        cmocka_unit_test_setup_teardown(held_output_stays_in_the_pipe, set_up, tear_down),
        cmocka_unit_test_setup_teardown(input_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(input_that_is_not_wanted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(somebody_holds_the_pipes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(somebody_holds_the_pipes_of_one_without_leftovers, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(stopping, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stopping_what_is_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_does_not_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_descriptor_is_left, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
