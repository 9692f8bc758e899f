/* Paths as clients write them. */
#include "unit.h"

#include "huskd/file_path.h"

static void test_clean(void **state)
{
    (void)state;
    static const struct {
        const char *text, *path;
    } good[] = {
        {"a", "a"},
        {"a/b.txt", "a/b.txt"},
        {"/home/user/a", "a"},
        {"/home/user", ""},
        {"/home/user/", ""},
        {"", ""},
        {".", ""},
        {"./a//b/./c/", "a/b/c"},
        {"...", "..."},
        {"..a/b..", "..a/b.."},
        {"home/user/x", "home/user/x"},
        {"a\\..\\b", "a\\..\\b"},
        {"%2e%2e", "%2e%2e"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        char out[MAX_FILE_PATH_BYTES + 1];
        if (file_path_clean(good[i].text, out) != 0)
            fail_msg("%s", good[i].text);
        assert_string_equal(out, good[i].path);
    }
    static const char *const bad[] = {
        "/",    "/etc/passwd", "/home/user2",     "/home/userx/a", "..",   "../a",
        "a/..", "a/../b",      "/home/user/../x", "/home/user//a", "\xff", "\xc0\xae\xc0\xae/x"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        char out[MAX_FILE_PATH_BYTES + 1];
        if (file_path_clean(bad[i], out) != -EINVAL)
            fail_msg("%s", bad[i]);
    }
}

static void test_lengths(void **state)
{
    (void)state;
    char text[2 * MAX_FILE_PATH_BYTES], out[MAX_FILE_PATH_BYTES + 1];
    memset(text, 'n', sizeof text);
    text[MAX_FILE_NAME_BYTES] = '\0';
    assert_int_equal(file_path_clean(text, out), 0);
    text[MAX_FILE_NAME_BYTES] = 'n';
    text[MAX_FILE_NAME_BYTES + 1] = '\0';
    assert_int_equal(file_path_clean(text, out), -ENAMETOOLONG);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = i % 2 ? '/' : 'n';
    text[MAX_FILE_PATH_BYTES - 1] = '\0';
    assert_int_equal(file_path_clean(text, out), 0);
    text[MAX_FILE_PATH_BYTES - 1] = '/';
    text[MAX_FILE_PATH_BYTES + 2] = '\0';
    assert_int_equal(file_path_clean(text, out), -ENAMETOOLONG);
}

static void test_last(void **state)
{
    (void)state;
    assert_string_equal(file_path_last("C:\\dir\\x.txt"), "x.txt");
    assert_string_equal(file_path_last("/a/b"), "b");
    assert_string_equal(file_path_last("b"), "b");
    assert_string_equal(file_path_last("a/"), "");
    assert_string_equal(file_path_last("..\\.."), "..");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_clean), cmocka_unit_test(test_lengths),
                                       cmocka_unit_test(test_last)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
