/* Names in archives. */
#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/failure.h"
#include "porter/path_walk.h"

static void test_check(void **state)
{
    (void)state;
    struct failure why;
    static const char *const good[] = {"a", "a/b", "./a", "a//b/", "...", "", "a/..b"};
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        assert_int_equal(path_check(good[i], &why), 0);
    static const char *const bad[] = {"/a", "..", "a/..", "a/../b", "../a", "\xff", "//a"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        assert_int_equal(path_check(bad[i], &why), -EBADMSG);
    char text[2 * MAX_FILE_PATH_BYTES];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 2 ? '/' : 'n';
    text[2 * MAX_WALKED_DEPTH] = '\0';
    assert_int_equal(path_check(text, &why), 0);
    text[2 * MAX_WALKED_DEPTH] = 'n';
    text[2 * MAX_WALKED_DEPTH + 1] = '\0';
    assert_int_equal(path_check(text, &why), -EBADMSG);
}

static void test_links(void **state)
{
    (void)state;
    static const struct {
        const char *path, *target;
        bool stays;
    } cases[] = {
        {"a", "b", true},          {"a", ".", true},      {"a", "..", false},
        {"d/a", "../b", true},     {"d/a", "..", true},   {"d/a", "../..", false},
        {"d/a", "../../d", false}, {"a", "/etc", false},  {"a", "", false},
        {"a", "b/../../c", false}, {"a", "b/../c", true}, {"./d/a", "./../b", true},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        if (path_link_stays(cases[i].path, cases[i].target) != cases[i].stays)
            fail_msg("%s -> %s", cases[i].path, cases[i].target);
    }
}

static void test_open(void **state)
{
    (void)state;
    char folder[32], name[MAX_FILE_NAME_BYTES + 1], command[64];
    struct stat status;
    make_directory(folder);
    int top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(path_open_parent(top, "a/b/c", false, name), -ENOENT);
    int fd = path_open_parent(top, "a/./b//c", true, name);
    assert_true(fd >= 0);
    assert_string_equal(name, "c");
    assert_int_equal(fstatat(top, "a/b", &status, 0), 0);
    assert_int_equal(fstatat(top, "a/b/c", &status, 0), -1);
    close(fd);
    assert_int_equal(path_open_parent(top, "./", true, name), -EISDIR);
    assert_int_equal(symlinkat("a", top, "link"), 0);
    assert_int_equal(path_open_parent(top, "link/x", true, name), -ENOTDIR);
    assert_int_equal(path_open(top, "link", true), -ENOTDIR);
    fd = path_open(top, "", false);
    assert_true(fd >= 0);
    close(fd);
    close(top);
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_check), cmocka_unit_test(test_links),
                                       cmocka_unit_test(test_open)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
