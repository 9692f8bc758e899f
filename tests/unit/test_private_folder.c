/* Private folders of jobs: deep trees go, leftovers of others go, what others work on stays. */
#include "unit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/failure.h"
#include "porter/private_folder.h"

struct fixture {
    char path[32];
    int incoming, home;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    make_directory(fixture->path);
    int top = open(fixture->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(top, "incoming", 0700), 0);
    assert_int_equal(mkdirat(top, "home", 0700), 0);
    fixture->incoming = openat(top, "incoming", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fixture->home = openat(top, "home", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(top);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[64];
    close(fixture->incoming);
    close(fixture->home);
    (void)snprintf(command, sizeof command, "rm -rf %s", fixture->path);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

static unsigned entries(int folder)
{
    unsigned count = 0;
    DIR *found = fdopendir(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    assert_non_null(found);
    while (readdir(found))
        count++;
    closedir(found);
    return count - 2;
}

static void write_file(int folder, const char *name)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static int open_incoming(const struct fixture *fixture)
{
    return openat(fixture->incoming, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void test_deep(void **state)
{
    const struct fixture *fixture = *state;
    struct private_folder folder;
    struct failure why;
    int before = open_descriptors();
    int at = openat(fixture->home, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned depth = 0; depth < 5000; depth++) {
        assert_int_equal(mkdirat(at, "d", 0700), 0);
        if (depth % 100 == 0)
            write_file(at, "file");
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = next;
    }
    close(at);
    assert_int_equal(private_folder_make(&folder, fixture->incoming, &why), 0);
    assert_int_equal(private_folder_take(&folder, fixture->home, "d"), 0);
    assert_int_equal(entries(fixture->home), 1);
    private_folder_remove(&folder);
    assert_int_equal(entries(fixture->incoming), 0);
    assert_int_equal(open_descriptors(), before);
    private_folder_remove(&folder);
}

/* Links are removed, not followed. */
static void test_links(void **state)
{
    const struct fixture *fixture = *state;
    struct private_folder folder;
    struct failure why;
    write_file(fixture->home, "kept");
    assert_int_equal(private_folder_make(&folder, fixture->incoming, &why), 0);
    assert_int_equal(symlinkat("../../home", folder.fd, "link"), 0);
    assert_int_equal(mkdirat(folder.fd, "sub", 0700), 0);
    assert_int_equal(symlinkat("../../../home", folder.fd, "sub/link"), 0);
    assert_int_equal(mkfifoat(folder.fd, "sub/fifo", 0600), 0);
    private_folder_remove(&folder);
    assert_int_equal(entries(fixture->incoming), 0);
    assert_int_equal(entries(fixture->home), 1);
}

/* Locks belong to open files: each job has its own of `incoming`. */
static void test_leftovers(void **state)
{
    const struct fixture *fixture = *state;
    struct private_folder dead, working, next;
    struct failure why;
    int incoming[] = {open_incoming(fixture), open_incoming(fixture), open_incoming(fixture)};
    assert_int_equal(private_folder_make(&dead, incoming[0], &why), 0);
    write_file(dead.fd, "leftover");
    assert_int_equal(private_folder_make(&working, incoming[1], &why), 0);
    write_file(working.fd, "work");
    assert_int_equal(entries(fixture->incoming), 2);
    close(dead.fd); /* as its process ended */
    assert_int_equal(private_folder_make(&next, incoming[2], &why), 0);
    assert_int_equal(entries(fixture->incoming), 2);
    private_folder_remove(&next);
    assert_int_equal(entries(fixture->incoming), 1);
    assert_int_equal(entries(working.fd), 1);
    private_folder_remove(&working);
    assert_int_equal(entries(fixture->incoming), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(incoming); i++)
        close(incoming[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_deep, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_leftovers, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
