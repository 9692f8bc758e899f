/* Which local files a model may name: command/mcp_roots.h. */
#include "command/mcp_roots.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/failure.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "unit.h"

static char top[32];

static char *at(const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", top, name);
    return path;
}

static void write_text(const char *name, const char *text)
{
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_int_equal(write_all(fd, text, strlen(text)), 0);
    close_fd(fd);
}

/* top/open is a root, top/secret and top/opener/… are not. */
static int set_up(void **state _unused_)
{
    make_directory(top);
    assert_int_equal(mkdir(at("open"), 0755), 0);
    assert_int_equal(mkdir(at("open/inner"), 0755), 0);
    assert_int_equal(mkdir(at("opener"), 0755), 0);
    write_text("open/file", "good");
    write_text("secret", "bad");
    write_text("opener/file", "bad");
    assert_int_equal(symlink("../secret", at("open/up")), 0);
    _cleanup_free_ char *secret = must_copy(at("secret"));
    assert_int_equal(symlink(secret, at("open/absolute")), 0);
    assert_int_equal(symlink("..", at("open/parent")), 0);
    assert_int_equal(symlink("file", at("open/link")), 0);
    assert_int_equal(symlink("open", at("other")), 0);
    assert_int_equal(mkfifo(at("open/pipe"), 0600), 0);
    return 0;
}

static int tear_down(void **state _unused_)
{
    _cleanup_free_ char *command = must_format("rm -rf %s", top);
    assert_int_equal(system(command), 0);
    return 0;
}

static void open_one(struct roots *roots, const char *name)
{
    const char *folders[] = {at(name)};
    struct failure why;
    assert_int_equal(roots_open(roots, folders, 1, &why), 0);
}

static void test_reading(void **state _unused_)
{
    static const char *const good[] = {"open/file", "open/./file",        "open//file",
                                       "open/link", "open/inner/../file", "other/file",
                                       "other/link"};
    static const char *const bad[] = {"secret",           "opener/file",    "open/../secret",
                                      "open/up",          "open/absolute",  "open/parent/secret",
                                      "open/pipe",        "open/none",      "open/file/",
                                      "open/inner/../..", "other/../secret"};
    struct roots roots;
    struct failure why;
    open_one(&roots, "other");
    int before = open_descriptors();
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        char text[8] = "";
        int fd = roots_open_path(&roots, at(good[i]), &why);
        assert_true(fd >= 0);
        assert_int_equal(read_some(fd, text, sizeof text), 4);
        assert_string_equal(text, "good");
        close_fd(fd);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        why.text[0] = '\0';
        assert_true(roots_open_path(&roots, at(bad[i]), &why) < 0);
        assert_true(why.text[0] != '\0');
    }
    static const char *const elsewhere[] = {"", "/etc/passwd", "file", "/proc/self/environ", ".."};
    for (size_t i = 0; i < ARRAY_LENGTH(elsewhere); i++)
        assert_true(roots_open_path(&roots, elsewhere[i], &why) < 0);
    assert_int_equal(open_descriptors(), before);
    roots_close(&roots);
}

static void test_writing(void **state _unused_)
{
    static const struct {
        const char *path, *name; /* what the file is called; NULL: refused */
        const char *folder;      /* that it goes into */
    } cases[] = {
        {"open/new", "new", "open"},
        {"open", "given", "open"},
        {"open/inner", "given", "open/inner"},
        {"open/made/for/it", "it", "open/made/for"},
        {"open/made/folder/", "given", "open/made/folder"},
        {"open/inner/../new", "new", "open"},
        {"open/../new"},
        {"open/parent/new"},
        {"open/parent/made/new"},
        {"open/.."},
        {"open/inner/..", "given", "open"},
        {"opener/new"},
        {"new"},
        {"open/file/new"},
    };
    struct roots roots;
    struct failure why;
    char name[MAX_FILE_NAME_BYTES + 1];
    open_one(&roots, "open");
    int before = open_descriptors();
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int folder = roots_open_parent(&roots, at(cases[i].path), "given", name, &why);
        assert_true((folder >= 0) == (cases[i].name != NULL));
        if (folder < 0)
            continue;
        struct stat here, wanted;
        assert_string_equal(name, cases[i].name);
        assert_int_equal(fstat(folder, &here), 0);
        assert_int_equal(stat(at(cases[i].folder), &wanted), 0);
        assert_true(here.st_ino == wanted.st_ino && here.st_dev == wanted.st_dev);
        close_fd(folder);
    }
    assert_true(access(at("made"), F_OK) < 0 && access(at("new"), F_OK) < 0);
    /* A name that the service made up. */
    static const char *const made_up[] = {"", ".", ".."};
    for (size_t i = 0; i < ARRAY_LENGTH(made_up); i++)
        assert_true(roots_open_parent(&roots, at("open"), made_up[i], name, &why) < 0);
    assert_int_equal(roots_check(&roots, at("open/new"), &why), 0);
    assert_true(roots_check(&roots, at("open/up"), &why) < 0);
    assert_true(roots_check(&roots, at("secret"), &why) < 0);
    assert_int_equal(open_descriptors(), before);
    roots_close(&roots);
}

static void in_home(void *user _unused_)
{
    struct roots roots;
    struct failure why;
    child_check(setenv("HOME", at("open"), 1) == 0 && chdir(at("")) == 0);
    child_check(roots_open(&roots, NULL, 0, &why) == 0 && roots.count == 0);
    child_check(roots_open_path(&roots, at("open/file"), &why) == -EACCES);
    child_check(strstr(why.text, "--root") != NULL);
    roots_close(&roots);
    child_check(chdir(at("opener")) == 0);
    child_check(roots_open(&roots, NULL, 0, &why) == 0 && roots.count == 1);
    int fd = roots_open_path(&roots, "file", &why);
    child_check(fd >= 0 && close(fd) == 0);
    child_check(roots_open_path(&roots, "../open/file", &why) < 0);
    roots_close(&roots);
}

/* Where it was started, unless that is more than anybody meant. */
static void test_usual_root(void **state _unused_)
{
    assert_int_equal(in_child(in_home, NULL), 0);
}

static void test_too_many(void **state _unused_)
{
    const char *folders[MAX_BRIDGE_ROOTS + 1];
    struct roots roots;
    struct failure why;
    for (size_t i = 0; i < ARRAY_LENGTH(folders); i++)
        folders[i] = top;
    assert_int_equal(roots_open(&roots, folders, ARRAY_LENGTH(folders), &why), -E2BIG);
    roots_close(&roots);
    assert_int_equal(roots_open(&roots, folders, MAX_BRIDGE_ROOTS, &why), 0);
    roots_close(&roots);
    const char *none[] = {at("none")};
    assert_int_equal(roots_open(&roots, none, 1, &why), -ENOENT);
    roots_close(&roots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reading, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_writing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_usual_root, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_too_many, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
