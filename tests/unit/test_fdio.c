#include "unit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "base/fdio.h"

enum {
    MUCH = 1024 * 1024 /* more than a pipe holds */
};

static void make_pipe(int ends[2])
{
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
}

/* --- signals that interrupt calls ---------------------------------------------------------------- */

static int alarm_fd;
static volatile sig_atomic_t alarms;

/* By the third alarm, which is told, the call in question was blocked and interrupted. */
static void on_alarm(int number _unused_)
{
    if (++alarms == 3)
        (void)!write(alarm_fd, "r", 1);
}

static bool begin_alarms(int fd)
{
    alarm_fd = fd;
    alarms = 0;
    struct sigaction action = {.sa_handler = on_alarm};
    struct itimerval interval = {{0, 5000}, {0, 5000}};
    return sigaction(SIGALRM, &action, NULL) == 0 && setitimer(ITIMER_REAL, &interval, NULL) == 0;
}

static void end_alarms(void)
{
    assert_int_equal(setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL), 0);
    (void)signal(SIGALRM, SIG_DFL);
}

/* --- whole transfers ------------------------------------------------------------------------- */

struct transfer {
    int ends[2];
    int interrupted[2]; /* says that the writer was */
};

static void write_much(void *user)
{
    const struct transfer *transfer = user;
    char *data = malloc(MUCH);
    child_check(data != NULL);
    for (size_t i = 0; i < MUCH; i++)
        data[i] = (char)(i % 253);
    close(transfer->ends[0]);
    child_check(begin_alarms(transfer->interrupted[1]));
    child_check(write_all(transfer->ends[1], data, MUCH) == 0);
}

static void whole_transfers_survive_short_ones(void **state _unused_)
{
    struct transfer transfer;
    char byte;
    make_pipe(transfer.ends);
    make_pipe(transfer.interrupted);
    pid_t writer = start_child(write_much, &transfer);
    close(transfer.ends[1]);
    _cleanup_free_ char *data = malloc(MUCH);
    assert_non_null(data);
    assert_int_equal(read_exactly(transfer.interrupted[0], &byte, 1), 0);
    assert_int_equal(read_exactly(transfer.ends[0], data, MUCH), 0);
    for (size_t i = 0; i < MUCH; i++) {
        if (data[i] != (char)(i % 253))
            fail_msg("byte %zu is wrong", i);
    }
    assert_int_equal(read_exactly(transfer.ends[0], data, 1), -EPIPE);
    int status;
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    close(transfer.ends[0]);
    close(transfer.interrupted[0]);
    close(transfer.interrupted[1]);
}

static void an_early_end_is_an_error(void **state _unused_)
{
    int ends[2];
    char data[8];
    make_pipe(ends);
    assert_int_equal(write_all(ends[1], "1234", 4), 0);
    close(ends[1]);
    assert_int_equal(read_exactly(ends[0], data, 5), -EPIPE);
    assert_int_equal(read_exactly(ends[0], data, 0), 0);
    close(ends[0]);
    assert_int_equal(read_exactly(ends[0], data, 1), -EBADF);
    assert_int_equal(write_all(ends[1], data, 1), -EBADF);
}

static void writing_to_nobody_is_an_error(void **state _unused_)
{
    int ends[2];
    make_pipe(ends);
    close(ends[0]);
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    assert_int_equal(write_all(ends[1], "x", 1), -EPIPE);
    assert_int_equal(write_some(ends[1], "x", 1), -EPIPE);
    (void)signal(SIGPIPE, before);
    close(ends[1]);
}

static void single_transfers_say_when_they_would_block(void **state _unused_)
{
    int ends[2];
    char data[4096] = {0};
    make_pipe(ends);
    assert_int_equal(set_nonblocking(ends[0], true), 0);
    assert_int_equal(set_nonblocking(ends[1], true), 0);
    assert_int_equal(read_some(ends[0], data, sizeof data), -EAGAIN);
    ssize_t n;
    while ((n = write_some(ends[1], data, sizeof data)) > 0)
        ;
    assert_int_equal(n, -EAGAIN);
    assert_int_equal(read_some(ends[0], data, 3), 3);
    close(ends[1]);
    while ((n = read_some(ends[0], data, sizeof data)) > 0)
        ;
    assert_int_equal(n, 0);
    close(ends[0]);
}

static void signals_do_not_interrupt_reading(void **state _unused_)
{
    int ends[2];
    char byte = 0;
    make_pipe(ends);
    assert_true(begin_alarms(ends[1]));
    ssize_t n = read_some(ends[0], &byte, 1);
    end_alarms();
    assert_int_equal(n, 1);
    assert_int_equal(byte, 'r');
    close(ends[0]);
    close(ends[1]);
}

static void signals_do_not_interrupt_receiving(void **state _unused_)
{
    int ends[2];
    char byte = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    assert_true(begin_alarms(ends[1]));
    ssize_t n = receive_with_fds(ends[0], &byte, 1, NULL, NULL);
    end_alarms();
    assert_int_equal(n, 1);
    assert_int_equal(byte, 'r');
    close(ends[0]);
    close(ends[1]);
}

/* --- files ----------------------------------------------------------------------------------- */

static void put_file(const char *directory, const char *name, const char *text)
{
    char path[64];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void small_files_are_read_whole_or_not_at_all(void **state _unused_)
{
    char directory[32], text[8];
    make_directory(directory);
    put_file(directory, "seven", "1234567");
    put_file(directory, "eight", "12345678");
    put_file(directory, "empty", "");
    _cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(read_file_at(fd, "seven", text, sizeof text), 7);
    assert_string_equal(text, "1234567");
    assert_int_equal(read_file_at(fd, "eight", text, sizeof text), -EFBIG);
    assert_int_equal(read_file_at(fd, "empty", text, sizeof text), 0);
    assert_string_equal(text, "");
    assert_int_equal(read_file_at(fd, "none", text, sizeof text), -ENOENT);
    assert_int_equal(read_file_at(fd, ".", text, sizeof text), -EISDIR);
    static const char *const names[] = {"seven", "eight", "empty"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        assert_int_equal(unlinkat(fd, names[i], 0), 0);
    assert_int_equal(rmdir(directory), 0);
}

static void only_files_that_exist_are_written(void **state _unused_)
{
    char directory[32], text[16];
    make_directory(directory);
    put_file(directory, "file", "0000");
    _cleanup_close_ int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(write_file_at(fd, "file", "12345"), 0);
    assert_int_equal(read_file_at(fd, "file", text, sizeof text), 5);
    assert_string_equal(text, "12345");
    assert_int_equal(write_file_at(fd, "none", "x"), -ENOENT);
    assert_int_equal(faccessat(fd, "none", F_OK, 0), -1);
    assert_int_equal(write_file_at(AT_FDCWD, "/dev/full", "x"), -ENOSPC);
    assert_int_equal(unlinkat(fd, "file", 0), 0);
    assert_int_equal(rmdir(directory), 0);
}

/* --- flags ----------------------------------------------------------------------------------- */

static void flags_go_on_and_off_alone(void **state _unused_)
{
    _cleanup_close_ int fd = open("/dev/null", O_WRONLY | O_APPEND);
    assert_int_equal(set_nonblocking(fd, true), 0);
    assert_int_equal(fcntl(fd, F_GETFL) & (O_NONBLOCK | O_APPEND), O_NONBLOCK | O_APPEND);
    assert_int_equal(set_nonblocking(fd, false), 0);
    assert_int_equal(fcntl(fd, F_GETFL) & (O_NONBLOCK | O_APPEND), O_APPEND);
    assert_int_equal(set_cloexec(fd, true), 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(set_cloexec(fd, false), 0);
    assert_int_equal(fcntl(fd, F_GETFD), 0);
    assert_int_equal(set_nonblocking(-1, true), -EBADF);
    assert_int_equal(set_cloexec(-1, true), -EBADF);
}

static void mark_descriptors(void *user _unused_)
{
    static const int places[] = {10, 19, 20, 21, 200};
    for (size_t i = 0; i < ARRAY_LENGTH(places); i++)
        child_check(dup2(STDERR_FILENO, places[i]) == places[i]);
    cloexec_from(20);
    for (size_t i = 0; i < ARRAY_LENGTH(places); i++)
        child_check(fcntl(places[i], F_GETFD) == (places[i] < 20 ? 0 : FD_CLOEXEC));
}

static void all_descriptors_from_one_on_close_at_exec(void **state _unused_)
{
    assert_int_equal(in_child(mark_descriptors, NULL), 0);
}

static void keep_few_descriptors(void *user _unused_)
{
    static const int places[] = {10, 19, 20, 21, 22, 199, 200, 201};
    for (size_t i = 0; i < ARRAY_LENGTH(places); i++)
        child_check(dup2(STDERR_FILENO, places[i]) == places[i]);
    int kept[] = {200, -1, 21, 10, 20, 21, -1};
    close_others(19, kept, ARRAY_LENGTH(kept));
    for (size_t i = 0; i < ARRAY_LENGTH(places); i++) {
        int at = places[i];
        bool open = fcntl(at, F_GETFD) >= 0;
        child_check(open == (at == 10 || at == 20 || at == 21 || at == 200));
    }
    close_others(10, NULL, 0);
    child_check(fcntl(10, F_GETFD) < 0 && fcntl(200, F_GETFD) < 0);
    child_check(fcntl(STDERR_FILENO, F_GETFD) >= 0);
}

static void all_descriptors_but_a_few_are_closed(void **state _unused_)
{
    assert_int_equal(in_child(keep_few_descriptors, NULL), 0);
}

static void raise_limit(void *user _unused_)
{
    struct rlimit limit;
    child_check(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = 32;
    limit.rlim_max = 64;
    child_check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    raise_descriptor_limit();
    child_check(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    child_check(limit.rlim_cur == 64 && limit.rlim_max == 64);
}

static void the_descriptor_limit_goes_up_to_the_hard_one(void **state _unused_)
{
    assert_int_equal(in_child(raise_limit, NULL), 0);
}

static void closing_gives_back_minus_one(void **state _unused_)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(close_fd(fd), -1);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(close_fd(-1), -1);
}

/* --- sockets at a path ----------------------------------------------------------------------- */

static void listeners_are_found_by_path(void **state _unused_)
{
    static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
    char directory[32], path[64];
    make_directory(directory);
    (void)snprintf(path, sizeof path, "%s/socket", directory);
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        assert_int_equal(unix_connect(path, types[i]), -ENOENT);
        int listener = unix_listen(path, types[i]);
        assert_true(listener >= 0);
        assert_int_equal(fcntl(listener, F_GETFD), FD_CLOEXEC);
        assert_int_equal(unix_listen(path, types[i]), -EADDRINUSE);
        int client = unix_connect(path, types[i]);
        assert_true(client >= 0);
        assert_int_equal(fcntl(client, F_GETFD), FD_CLOEXEC);
        int server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        char byte;
        assert_int_equal(write_all(client, "c", 1), 0);
        assert_int_equal(read_exactly(server, &byte, 1), 0);
        assert_int_equal(byte, 'c');
        close(listener);
        assert_int_equal(unix_connect(path, types[i]), -ECONNREFUSED);
        close(client);
        close(server);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(directory), 0);
}

static void paths_have_at_most_107_bytes(void **state _unused_)
{
    char directory[32], path[200];
    int before = open_descriptors();
    make_directory(directory);
    size_t length = (size_t)snprintf(path, sizeof path, "%s/", directory);
    memset(path + length, 'p', sizeof path - length);
    path[108] = '\0';
    assert_int_equal(unix_listen(path, SOCK_STREAM), -ENAMETOOLONG);
    assert_int_equal(unix_connect(path, SOCK_STREAM), -ENAMETOOLONG);
    path[107] = '\0';
    int listener = unix_listen(path, SOCK_STREAM);
    assert_true(listener >= 0);
    int client = unix_connect(path, SOCK_STREAM);
    assert_true(client >= 0);
    close(client);
    close(listener);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(open_descriptors(), before);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_transfers_survive_short_ones),
        cmocka_unit_test(an_early_end_is_an_error),
        cmocka_unit_test(writing_to_nobody_is_an_error),
        cmocka_unit_test(single_transfers_say_when_they_would_block),
        cmocka_unit_test(signals_do_not_interrupt_reading),
        cmocka_unit_test(signals_do_not_interrupt_receiving),
        cmocka_unit_test(small_files_are_read_whole_or_not_at_all),
        cmocka_unit_test(only_files_that_exist_are_written),
        cmocka_unit_test(flags_go_on_and_off_alone),
        cmocka_unit_test(all_descriptors_from_one_on_close_at_exec),
        cmocka_unit_test(all_descriptors_but_a_few_are_closed),
        cmocka_unit_test(the_descriptor_limit_goes_up_to_the_hard_one),
        cmocka_unit_test(closing_gives_back_minus_one),
        cmocka_unit_test(listeners_are_found_by_path),
        cmocka_unit_test(paths_have_at_most_107_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
