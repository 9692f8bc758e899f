/* Files without a name, and how they get one: in one step, below the folder, or not at all. */
#include "unit.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "keeper/nameless_file.h"

enum {
    UID = 4711
};

struct fixture {
    char path[32];
    int top, home;
};

/* top/outside, top/home, on a tmpfs of few files. */
static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    make_directory(fixture->path);
    assert_int_equal(mount("tmpfs", fixture->path, "tmpfs", 0, "size=1m,nr_inodes=32"), 0);
    fixture->top = open(fixture->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(fixture->top, "home", 0755), 0);
    assert_int_equal(mkdirat(fixture->top, "outside", 0755), 0);
    fixture->home = openat(fixture->top, "home", O_PATH | O_DIRECTORY | O_CLOEXEC);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    close(fixture->home);
    close(fixture->top);
    assert_int_equal(umount(fixture->path), 0);
    assert_int_equal(rmdir(fixture->path), 0);
    free(fixture);
    return 0;
}

static int make(const struct fixture *fixture, const char *text)
{
    int fd = nameless_file_make(fixture->home, UID);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    return fd;
}

static int place(const struct fixture *fixture, const char *text, const char *path, bool *replaced)
{
    int fd = make(fixture, text);
    int r = nameless_file_place(fixture->home, UID, fd, path, replaced);
    close(fd);
    return r;
}

static void expect_content(const struct fixture *fixture, const char *path, const char *wanted)
{
    char text[32] = "";
    struct stat status;
    int fd = openat(fixture->home, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        fail_msg("%s: %s", path, strerror(errno));
    assert_true(read(fd, text, sizeof text - 1) >= 0);
    assert_string_equal(text, wanted);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_uid, UID);
    assert_int_equal(status.st_gid, UID);
    assert_int_equal(status.st_mode & 07777, 0644);
    assert_int_equal(status.st_nlink, 1);
    close(fd);
}

static unsigned entries(const struct fixture *fixture, const char *path)
{
    unsigned count = 0;
    int fd = openat(fixture->home, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fdopendir(fd);
    assert_non_null(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count - 2;
}

static void test_place(void **state)
{
    const struct fixture *fixture = *state;
    bool replaced = true;
    struct stat status;
    assert_int_equal(place(fixture, "one", "file", &replaced), 0);
    assert_false(replaced);
    expect_content(fixture, "file", "one");
    assert_int_equal(place(fixture, "two", "file", &replaced), 0);
    assert_true(replaced);
    expect_content(fixture, "file", "two");
    assert_int_equal(place(fixture, "deep", "a/b//./c/file", &replaced), 0);
    expect_content(fixture, "a/b/c/file", "deep");
    assert_int_equal(fstatat(fixture->home, "a/b", &status, 0), 0);
    assert_int_equal(status.st_uid, UID);
    assert_int_equal(entries(fixture, "."), 2);
}

static void test_links(void **state)
{
    const struct fixture *fixture = *state;
    bool replaced;
    assert_int_equal(symlinkat("../outside/x", fixture->home, "link"), 0);
    assert_int_equal(symlinkat("../outside", fixture->home, "out"), 0);
    assert_int_equal(symlinkat("real", fixture->home, "in"), 0);
    assert_int_equal(symlinkat("nothing", fixture->home, "dangling"), 0);
    assert_int_equal(mkdirat(fixture->home, "real", 0755), 0);
    assert_int_equal(place(fixture, "new", "link", &replaced), 0);
    assert_true(replaced);
    expect_content(fixture, "link", "new");
    assert_int_equal(place(fixture, "new", "in/file", &replaced), 0);
    expect_content(fixture, "real/file", "new");
    assert_int_equal(place(fixture, "new", "out/file", &replaced), -EXDEV);
    assert_int_equal(place(fixture, "new", "../outside/file", &replaced), -EXDEV);
    assert_int_equal(place(fixture, "new", "/file", &replaced),
                     0); /* "" is home; no slash is kept */
    assert_int_equal(place(fixture, "new", "dangling/file", &replaced), -ENOENT);
    assert_int_equal(entries(fixture, "../outside"), 0);
}

static void test_refused(void **state)
{
    const struct fixture *fixture = *state;
    bool replaced;
    int before = open_descriptors();
    char name[300];
    assert_int_equal(mkdirat(fixture->home, "folder", 0755), 0);
    static const char *const folders[] = {"folder", "folder/", ".", "..", "a/..", "folder/."};
    for (size_t i = 0; i < ARRAY_LENGTH(folders); i++)
        assert_int_equal(place(fixture, "x", folders[i], &replaced), -EISDIR);
    assert_int_equal(place(fixture, "x", "file", &replaced), 0);
    assert_int_equal(place(fixture, "x", "file/below", &replaced), -ENOTDIR);
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_int_equal(place(fixture, "x", name, &replaced), -ENAMETOOLONG);
    assert_int_equal(entries(fixture, "."), 2);
    assert_int_equal(open_descriptors(), before);
}

/* Nothing but what nameless_file_make() made for this very sandbox. */
static void test_other_files(void **state)
{
    const struct fixture *fixture = *state;
    bool replaced;
    int named = openat(fixture->home, "named", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    assert_int_equal(fchown(named, UID, UID), 0);
    int elsewhere = memfd_create("x", MFD_CLOEXEC);
    assert_int_equal(fchown(elsewhere, UID, UID), 0);
    int foreign = nameless_file_make(fixture->home, UID + 1);
    const int bad[] = {-1, named, elsewhere, foreign, fixture->top};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        assert_int_equal(nameless_file_place(fixture->home, UID, bad[i], "x", &replaced), -EBADF);
    int good = make(fixture, "x");
    assert_int_equal(nameless_file_place(fixture->home, UID, good, "x", &replaced), 0);
    assert_int_equal(nameless_file_place(fixture->home, UID, good, "y", &replaced), -EBADF);
    close(good);
    close(named);
    close(elsewhere);
    close(foreign);
    assert_int_equal(entries(fixture, "."), 2);
}

/* Folders that were made for it go with it. */
static void test_no_room(void **state)
{
    const struct fixture *fixture = *state;
    bool replaced;
    int fd = make(fixture, "x");
    char path[64] = "";
    for (unsigned i = 0; i < 31; i++)
        (void)strcat(path, "d/");
    (void)strcat(path, "x");
    assert_int_equal(nameless_file_place(fixture->home, UID, fd, path, &replaced), -ENOSPC);
    assert_int_equal(entries(fixture, "."), 0);
    assert_int_equal(nameless_file_place(fixture->home, UID, fd, "d/x", &replaced), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_room, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
