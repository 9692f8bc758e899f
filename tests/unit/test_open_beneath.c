/* Paths of a sandbox: what is below the directory is opened, and nothing leads out of it. */
#include "unit.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "keeper/open_beneath.h"

struct fixture {
    char path[32];
    int top;
    int home;
};

static void write_file(int directory, const char *name, const char *text)
{
    int fd = openat(directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* top/secret, top/home/…: the secret is one ".." away. */
static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    make_directory(fixture->path);
    fixture->top = open(fixture->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(fixture->top, "home", 0700), 0);
    fixture->home = openat(fixture->top, "home", O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(fixture->home, "folder", 0700), 0);
    write_file(fixture->top, "secret", "secret");
    write_file(fixture->home, "file", "good");
    write_file(fixture->home, "folder/inner", "good");
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[64];
    close(fixture->home);
    close(fixture->top);
    (void)snprintf(command, sizeof command, "rm -rf %s", fixture->path);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

static void expect_good(const struct fixture *fixture, const char *path)
{
    char text[16] = "";
    int fd = open_file_beneath(fixture->home, path);
    if (fd < 0)
        fail_msg("%s: %s", path, strerror(-fd));
    assert_int_equal(read(fd, text, sizeof text - 1), 4);
    assert_string_equal(text, "good");
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
}

static void expect_error(const struct fixture *fixture, const char *path, int error)
{
    int before = open_descriptors();
    int fd = open_file_beneath(fixture->home, path);
    if (fd != -error)
        fail_msg("%s: %d instead of %d", path, fd, -error);
    assert_int_equal(open_descriptors(), before);
}

static void test_below(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(symlinkat("folder/../file", fixture->home, "link"), 0);
    assert_int_equal(symlinkat("../file", fixture->home, "folder/link"), 0);
    assert_int_equal(linkat(fixture->home, "file", fixture->home, "hard", 0), 0);
    assert_int_equal(fchmodat(fixture->home, "hard", 0, 0), 0);
    static const char *const paths[] = {"file",           "folder/inner",  "./file",
                                        "folder/../file", "folder//inner", "link",
                                        "hard",           "folder/link",   "folder/./inner"};
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++)
        expect_good(fixture, paths[i]);
}

static void test_out(void **state)
{
    struct fixture *fixture = *state;
    char own[64];
    (void)snprintf(own, sizeof own, "/proc/self/fd/%d", fixture->top);
    static const struct {
        const char *target, *name;
    } links[] = {
        {"../secret", "up"},
        {"/etc/passwd", "absolute"},
        {"/", "root"},
        {"..", "parent"},
        {"/proc/self/root", "magic"},
        {"folder/../../secret", "crooked"},
        {"up", "chain"},
        {"/proc/self/environ", "environment"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(links); i++)
        assert_int_equal(symlinkat(links[i].target, fixture->home, links[i].name), 0);
    assert_int_equal(symlinkat(own, fixture->home, "descriptor"), 0);
    static const char *const paths[] = {
        "..",
        "../secret",
        "folder/../../secret",
        "/etc/passwd",
        "/",
        "up",
        "absolute",
        "root/etc/passwd",
        "parent/secret",
        "magic/etc/passwd",
        "crooked",
        "chain",
        "environment",
        "descriptor/secret",
        "../home/file",
        "../../../../../../../../etc/passwd",
        "/proc/self/environ",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++)
        expect_error(fixture, paths[i], EXDEV);
}

static void test_not_there(void **state)
{
    struct fixture *fixture = *state;
    char name[300], deep[4200] = "";
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (size_t i = 0; i + 2 < sizeof deep; i += 2)
        memcpy(deep + i, "x/", 3);
    expect_error(fixture, "nothing", ENOENT);
    expect_error(fixture, "", ENOENT);
    expect_error(fixture, "..\\secret", ENOENT);
    expect_error(fixture, "%2e%2e/secret", ENOENT);
    expect_error(fixture, "file/", ENOTDIR);
    expect_error(fixture, "file/..", ENOTDIR);
    expect_error(fixture, name, ENAMETOOLONG);
    expect_error(fixture, deep, ENAMETOOLONG);
    assert_int_equal(symlinkat("circle", fixture->home, "circle"), 0);
    expect_error(fixture, "circle", ELOOP);
}

static void test_not_regular(void **state)
{
    struct fixture *fixture = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/home/socket", fixture->path);
    int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(mkfifoat(fixture->home, "fifo", 0600), 0);
    assert_int_equal(mknodat(fixture->home, "device", S_IFCHR | 0600, 0x0103), 0);
    expect_error(fixture, "socket", ENXIO);
    expect_error(fixture, "fifo", ENXIO);
    expect_error(fixture, "device", ENXIO);
    expect_error(fixture, "folder", EISDIR);
    expect_error(fixture, ".", EISDIR);
    close(listening);
}

static void write_to_fifo(void *user)
{
    const struct fixture *fixture = user;
    int fd = openat(fixture->home, "fifo", O_WRONLY | O_CLOEXEC);
    child_check(fd >= 0);
}

static bool sleeps(pid_t pid)
{
    char path[32], text[512] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/wchan", pid);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    (void)!fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    return strstr(text, "fifo") || strstr(text, "wait_for_partner");
}

/* Somebody who waits for a reader of a FIFO must not take us for one. */
static void test_fifo_is_not_woken(void **state)
{
    struct fixture *fixture = *state;
    int status;
    assert_int_equal(mkfifoat(fixture->home, "fifo", 0600), 0);
    pid_t child = start_child(write_to_fifo, fixture);
    int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
    assert_true(pidfd >= 0);
    for (int i = 0; i < 5000 && !sleeps(child); i++)
        (void)poll(NULL, 0, 1);
    assert_true(sleeps(child));
    for (int i = 0; i < 100; i++)
        expect_error(fixture, "fifo", ENXIO);
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    assert_int_equal(poll(&ended, 1, 50), 0);
    int reader = openat(fixture->home, "fifo", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(reader);
    close(pidfd);
}

/* Opening a file that somebody has a lease on waits for 45 seconds, unless one says otherwise. */
static void hold_lease(void *user)
{
    const struct fixture *fixture = user;
    (void)signal(SIGIO, SIG_IGN);
    int fd = openat(fixture->home, "file", O_RDWR | O_CLOEXEC);
    child_check(fd >= 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0);
    child_check(open_file_beneath(fixture->home, "file") == -EAGAIN);
}

static void test_lease(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(in_child(hold_lease, fixture), 0);
    expect_good(fixture, "file");
}

/* Exchange a link for another, and folders for links, as fast as it goes. */
static void flip(void *user)
{
    const struct fixture *fixture = user;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (;;) {
        static const char *const targets[] = {"file", "../secret", "/etc/passwd"};
        for (size_t i = 0; i < ARRAY_LENGTH(targets); i++) {
            child_check(symlinkat(targets[i], fixture->home, "next") == 0);
            child_check(renameat(fixture->home, "next", fixture->home, "flipping") == 0);
        }
        child_check(renameat2(fixture->home, "moving", fixture->top, "out", RENAME_EXCHANGE) == 0);
    }
}

/* "moving/../file" is home/file, or, if the walk followed the folder out, top/file. */
static void test_races(void **state)
{
    struct fixture *fixture = *state;
    unsigned opened = 0, refused = 0;
    assert_int_equal(symlinkat("file", fixture->home, "flipping"), 0);
    assert_int_equal(mkdirat(fixture->home, "moving", 0700), 0);
    assert_int_equal(mkdirat(fixture->top, "out", 0700), 0);
    write_file(fixture->top, "file", "evil");
    pid_t child = start_child(flip, fixture);
    for (int i = 0; i < 200000 && (i < 20000 || !opened || !refused); i++) {
        char text[16] = "";
        int fd = open_file_beneath(fixture->home, i % 2 ? "flipping" : "moving/../file");
        if (fd < 0) {
            assert_true(fd == -EXDEV || fd == -EAGAIN || fd == -ENOENT);
            refused++;
            continue;
        }
        assert_true(read(fd, text, sizeof text - 1) > 0);
        assert_string_equal(text, "good");
        close(fd);
        opened++;
    }
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(opened > 0 && refused > 0);
}

static void test_other_flags(void **state)
{
    struct fixture *fixture = *state;
    struct stat status;
    int fd = open_beneath(fixture->home, "made", O_WRONLY | O_CREAT | O_EXCL, 0640);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 0137, 0);
    close(fd);
    assert_int_equal(open_beneath(fixture->home, "made", O_WRONLY | O_CREAT | O_EXCL, 0600),
                     -EEXIST);
    assert_int_equal(open_beneath(fixture->home, "../made", O_WRONLY | O_CREAT, 0600), -EXDEV);
    assert_int_equal(faccessat(fixture->top, "made", F_OK, 0), -1);
    fd = open_beneath(fixture->home, "folder", O_RDONLY | O_DIRECTORY, 0);
    assert_true(fd >= 0);
    close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_below),
        TEST(test_out),
        TEST(test_not_there),
        TEST(test_not_regular),
        TEST(test_fifo_is_not_woken),
        TEST(test_lease),
        TEST(test_races),
        TEST(test_other_flags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
