/* What was created or changed since a moment, in trees that hostile code made. On a tmpfs, as the sandboxes' files are. */
#include "unit.h"

#include "still_clock.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "husk/limits.h"
#include "shim/changed_files.h"

struct fixture {
    char path[40];
    int home;
    struct changed_files found;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    (void)snprintf(fixture->path, sizeof fixture->path, "/dev/shm/husk-unit-XXXXXX");
    assert_non_null(mkdtemp(fixture->path));
    fixture->home = open(fixture->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fixture->home >= 0);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[64];
    changed_files_free(&fixture->found);
    close(fixture->home);
    (void)snprintf(command, sizeof command, "rm -rf %s", fixture->path);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

static void write_file(const struct fixture *fixture, const char *name, const char *text, int flags)
{
    int fd = openat(fixture->home, name, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void make_folder(const struct fixture *fixture, const char *name)
{
    assert_int_equal(mkdirat(fixture->home, name, 0700), 0);
}

/* Kernels before 6.13 stamp with the tick: let it pass, so that what comes is later than what was. */
static struct moment next_moment(void)
{
    struct timespec start, now;
    (void)clock_gettime(CLOCK_REALTIME_COARSE, &start);
    do {
        (void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
    } while (now.tv_sec == start.tv_sec && now.tv_nsec == start.tv_nsec);
    return moment_now();
}

static void find(struct fixture *fixture, const struct moment *since)
{
    changed_files_free(&fixture->found);
    int before = open_descriptors();
    assert_int_equal(changed_files_find(fixture->home, NULL, since, &fixture->found), 0);
    assert_int_equal(open_descriptors(), before);
    for (size_t i = 1; i < fixture->found.count; i++)
        assert_true(strcmp(fixture->found.files[i - 1].path, fixture->found.files[i].path) < 0);
}

static const struct changed_file *named(const struct fixture *fixture, const char *path)
{
    for (size_t i = 0; i < fixture->found.count; i++) {
        if (!strcmp(fixture->found.files[i].path, path))
            return &fixture->found.files[i];
    }
    return NULL;
}

static void expect(const struct fixture *fixture, const char *path, uint64_t size, bool created)
{
    const struct changed_file *file = named(fixture, path);
    if (!file)
        fail_msg("%s was not found", path);
    assert_int_equal(file->size, size);
    assert_int_equal(file->created, created);
}

static void test_nothing(void **state)
{
    struct fixture *fixture = *state;
    make_folder(fixture, "a");
    write_file(fixture, "a/old", "1", 0);
    struct moment since = next_moment();
    find(fixture, &since);
    assert_int_equal(fixture->found.count, 0);
    assert_false(fixture->found.incomplete);
    assert_null(fixture->found.files);
}

static void test_created(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture, "old", "1", 0);
    struct moment since = next_moment();
    make_folder(fixture, "new");
    make_folder(fixture, "new/deeper");
    write_file(fixture, "new/deeper/file", "12345", 0);
    write_file(fixture, "empty", "", 0);
    write_file(fixture, ".hidden", "x", 0);
    write_file(fixture, "\xf0\x9f\x8c\xbd \"\n", "corn", 0);
    find(fixture, &since);
    assert_int_equal(fixture->found.count, 4);
    assert_false(fixture->found.incomplete);
    expect(fixture, "new/deeper/file", 5, true);
    expect(fixture, "empty", 0, true);
    expect(fixture, ".hidden", 1, true);
    expect(fixture, "\xf0\x9f\x8c\xbd \"\n", 4, true);
}

static void test_changed(void **state)
{
    struct fixture *fixture = *state;
    static const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    static const char *const names[] = {"stays",    "in_place", "appended",  "truncated",
                                        "replaced", "mode",     "backdated", "linked"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        write_file(fixture, names[i], "123", 0);
    struct moment since = next_moment();
    write_file(fixture, "in_place", "x", 0);
    write_file(fixture, "appended", "4", O_APPEND);
    write_file(fixture, "truncated", "", O_TRUNC);
    write_file(fixture, "temporary", "new", 0);
    assert_int_equal(renameat(fixture->home, "temporary", fixture->home, "replaced"), 0);
    assert_int_equal(fchmodat(fixture->home, "mode", 0400, 0), 0);
    write_file(fixture, "backdated", "z", 0);
    assert_int_equal(utimensat(fixture->home, "backdated", long_ago, 0), 0);
    assert_int_equal(linkat(fixture->home, "linked", fixture->home, "link", 0), 0);
    find(fixture, &since);
    assert_int_equal(fixture->found.count, 8);
    assert_false(fixture->found.incomplete);
    expect(fixture, "in_place", 3, false);
    expect(fixture, "appended", 4, false);
    expect(fixture, "truncated", 0, false);
    expect(fixture, "replaced", 3, true);
    expect(fixture, "mode", 3, false);
    expect(fixture, "backdated", 3, false);
    expect(fixture, "linked", 3, false);
    expect(fixture, "link", 3, false);
}

/* With fine stamps (Linux 6.13) not even two moments within one tick are confused; with coarse ones this waits. */
static void test_one_execution_after_the_other(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 50; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "file%02d", i);
        struct moment since = i % 10 ? next_moment() : moment_now();
        write_file(fixture, name, "x", 0);
        find(fixture, &since);
        expect(fixture, name, 1, true);
        if (i % 10)
            assert_int_equal(fixture->found.count, 1);
    }
}

static void test_only_regular_files(void **state)
{
    struct fixture *fixture = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    write_file(fixture, "target", "1", 0);
    make_folder(fixture, "folder");
    write_file(fixture, "folder/old", "1", 0);
    struct moment since = next_moment();
    assert_int_equal(symlinkat("target", fixture->home, "link"), 0);
    assert_int_equal(symlinkat("/etc", fixture->home, "outside"), 0);
    assert_int_equal(symlinkat("folder", fixture->home, "folder_link"), 0);
    assert_int_equal(symlinkat("..", fixture->home, "folder/up"), 0);
    assert_int_equal(mkfifoat(fixture->home, "fifo", 0600), 0);
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", fixture->path);
    int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&address, sizeof address), 0);
    write_file(fixture, "folder/new", "12", 0);
    find(fixture, &since);
    close(listening);
    assert_int_equal(fixture->found.count, 1);
    assert_false(fixture->found.incomplete);
    expect(fixture, "folder/new", 2, true);
}

/* Twice as deep as is walked: what is above the limit is told, and that there may be more. */
static void test_deep(void **state)
{
    struct fixture *fixture = *state;
    struct moment since = next_moment();
    int at = dup(fixture->home);
    for (int depth = 0; depth < 2 * MAX_WALKED_DEPTH; depth++) {
        assert_int_equal(mkdirat(at, "d", 0700), 0);
        int below = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(below >= 0);
        close(at);
        at = below;
        int file = openat(at, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(file >= 0);
        close(file);
    }
    close(at);
    find(fixture, &since);
    assert_int_equal(fixture->found.count, MAX_WALKED_DEPTH);
    assert_true(fixture->found.incomplete);
    assert_non_null(named(fixture, "d/f"));
}

/* Names so long that the path is too long before the tree is too deep. */
static void test_long_paths(void **state)
{
    struct fixture *fixture = *state;
    char name[201] = "", file_name[201] = "";
    memset(name, 'n', 200);
    memset(file_name, 'f', 200);
    struct moment since = next_moment();
    int at = dup(fixture->home);
    for (int depth = 0; depth < 10; depth++) {
        assert_int_equal(mkdirat(at, name, 0700), 0);
        int below = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = below;
        int file = openat(at, file_name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(file >= 0);
        close(file);
    }
    close(at);
    find(fixture, &since);
    /* 5 names of 200 bytes and 4 slashes fit into 1024 bytes. */
    assert_int_equal(fixture->found.count, 4);
    assert_true(fixture->found.incomplete);
}

static void test_too_many(void **state)
{
    struct fixture *fixture = *state;
    struct moment since = next_moment();
    char name[32];
    for (int i = 0; i < MAX_CHANGED_FILES; i++) {
        (void)snprintf(name, sizeof name, "file%05d", i);
        write_file(fixture, name, "", 0);
    }
    find(fixture, &since);
    assert_int_equal(fixture->found.count, MAX_CHANGED_FILES);
    assert_false(fixture->found.incomplete);
    write_file(fixture, "one more", "", 0);
    find(fixture, &since);
    assert_int_equal(fixture->found.count, MAX_CHANGED_FILES);
    assert_true(fixture->found.incomplete);
}

static void test_names_that_are_not_utf8(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture, "old\xff", "1", 0);
    struct moment since = next_moment();
    find(fixture, &since);
    assert_false(fixture->found.incomplete);
    write_file(fixture, "good", "1", 0);
    write_file(fixture, "bad\xff", "1", 0);
    make_folder(fixture, "\xc3(");
    write_file(fixture, "\xc3(/file", "1", 0);
    find(fixture, &since);
    assert_int_equal(fixture->found.count, 1);
    assert_true(fixture->found.incomplete);
    expect(fixture, "good", 1, true);
}

/* As a user without root's rights, which is what the shim is. */
static void walk_unreadable(void *user)
{
    struct fixture *fixture = user;
    struct moment since = next_moment();
    child_check(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
    int file = openat(fixture->home, "seen", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    child_check(file >= 0 && mkdirat(fixture->home, "shut", 0) == 0);
    child_check(changed_files_find(fixture->home, NULL, &since, &fixture->found) == 0);
    child_check(fixture->found.count == 1 && fixture->found.incomplete);
    child_check(fchmodat(fixture->home, ".", 0, 0) == 0);
    child_check(changed_files_find(fixture->home, NULL, &since, &fixture->found) == -EACCES);
}

static void test_unreadable(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(fchown(fixture->home, 65534, 65534), 0);
    assert_int_equal(in_child(walk_unreadable, fixture), 0);
}

/* A clock that is set back while code runs stamps its files with times before the execution. */
static void test_clock_set_back(void **state)
{
    struct fixture *fixture = *state;
    write_file(fixture, "old", "1", 0);
    struct moment since = next_moment();
    since.wall.tv_sec += 3600;
    since.stamp.tv_sec += 3600;
    write_file(fixture, "new", "1", 0);
    find(fixture, &since);
    assert_int_equal(fixture->found.count, 1);
    expect(fixture, "new", 1, true);
    /* Set forward: nothing is missed either. */
    since = next_moment();
    since.wall.tv_sec -= 3600;
    since.stamp.tv_sec -= 3600;
    write_file(fixture, "newer", "1", 0);
    find(fixture, &since);
    assert_non_null(named(fixture, "newer"));
}

static void test_not_a_directory(void **state)
{
    struct fixture *fixture = *state;
    struct moment since = moment_now();
    write_file(fixture, "file", "", 0);
    int fd = openat(fixture->home, "file", O_RDONLY | O_CLOEXEC);
    assert_int_equal(changed_files_find(fd, NULL, &since, &fixture->found), -ENOTDIR);
    close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing),
        TEST(test_created),
        TEST(test_changed),
        TEST(test_one_execution_after_the_other),
        TEST(test_only_regular_files),
        TEST(test_deep),
        TEST(test_long_paths),
        TEST(test_too_many),
        TEST(test_names_that_are_not_utf8),
        TEST(test_unreadable),
        TEST(test_clock_set_back),
        TEST(test_not_a_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
