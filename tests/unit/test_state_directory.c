/* The state directory and its locks, and the address to listen on. */
#include "unit.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "huskd/listen_address.h"
#include "huskd/state_directory.h"

static void test_make(void **state)
{
    (void)state;
    char folder[32], path[64], parent[64];
    struct failure why;
    struct stat status;
    make_directory(folder);
    (void)snprintf(parent, sizeof parent, "%s/a", folder);
    (void)snprintf(path, sizeof path, "%s/a/b", folder);
    assert_int_equal(state_directory_make(path, 0, &why), 0);
    assert_int_equal(state_directory_make(path, 0, &why), 0);
    assert_int_equal(stat(path, &status), 0);
    assert_true(S_ISDIR(status.st_mode) && !(status.st_mode & 022));
    assert_int_equal(rmdir(path), 0);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(fd);
    assert_int_equal(state_directory_make(path, 0, &why), -ENOTDIR);
    assert_non_null(strstr(why.text, path));
    assert_non_null(strstr(why.text, "--state"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(parent), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void test_lock(void **state)
{
    (void)state;
    char folder[32], pid[16];
    struct failure why;
    make_directory(folder);
    int first = state_directory_lock(folder, 0, &why);
    assert_true(first >= 0);
    assert_int_equal(state_directory_lock(folder, 0, &why), -EBUSY);
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    assert_non_null(strstr(why.text, pid));
    assert_non_null(strstr(why.text, folder));
    close(first);
    first = state_directory_lock(folder, 0, &why);
    assert_true(first >= 0);
    state_directory_discard(folder);
    close(first);
    assert_int_equal(access(folder, F_OK), -1);
}

static void test_abandoned(void **state)
{
    (void)state;
    char folder[32], path[64];
    struct failure why;
    make_directory(folder);
    assert_int_equal(state_directory_abandoned(folder), 0);
    (void)snprintf(path, sizeof path, "%s/anchor.lock", folder);
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(state_directory_abandoned(folder), -EWOULDBLOCK);
    /* Nothing is thrown away while an anchor is there. */
    int lock = state_directory_lock(folder, 0, &why);
    state_directory_discard(folder);
    assert_int_equal(access(folder, F_OK), 0);
    close(fd);
    assert_int_equal(state_directory_abandoned(folder), 0);
    assert_int_equal(unlink(path), 0);
    state_directory_discard(folder);
    close(lock);
    assert_int_equal(access(folder, F_OK), -1);
    assert_int_equal(state_directory_abandoned(folder), 0);
}

static void test_addresses(void **state)
{
    (void)state;
    struct listen_address address;
    struct failure why;
    static const struct {
        const char *text, *host;
        bool loopback;
    } good[] = {{"127.0.0.1:8000", "127.0.0.1", true},
                {"127.1.2.3:0", "127.1.2.3", true},
                {"[::1]:65535", "::1", true},
                {"0.0.0.0:80", "0.0.0.0", false},
                {"[::]:80", "::", false},
                {"192.0.2.1:80", "192.0.2.1", false}};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(listen_address_check(good[i].text, &why), 0);
        assert_int_equal(listen_address_parse(good[i].text, &address, &why), 0);
        assert_string_equal(address.host, good[i].host);
        assert_int_equal(address.loopback, good[i].loopback);
    }
    static const char *const bad[] = {
        "",        "8000",     ":8000", "127.0.0.1", "127.0.0.1:", "a:b",         "a:-1",
        "a:65536", "::1:8000", "[::1]", "[]:80",     "[::1:80",    "127.0.0.1:8x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(listen_address_check(bad[i], &why), -EINVAL);
}

static void test_port_in_use(void **state)
{
    (void)state;
    struct listen_address address;
    struct failure why;
    char text[LISTEN_TEXT_SIZE];
    assert_int_equal(listen_address_parse("127.0.0.1:0", &address, &why), 0);
    int first = listen_address_open(&address, &why);
    assert_true(first >= 0);
    assert_int_equal(listen_address_format(first, text), 0);
    assert_null(strstr(text, ":0"));
    assert_int_equal(listen_address_parse(text, &address, &why), 0);
    assert_int_equal(listen_address_open(&address, &why), -EADDRINUSE);
    assert_non_null(strstr(why.text, "in use"));
    assert_non_null(strstr(why.text, strrchr(text, ':') + 1));
    close(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_make),        cmocka_unit_test(test_lock),
        cmocka_unit_test(test_abandoned),   cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_port_in_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
