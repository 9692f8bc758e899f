/* Content types by extension. */
#include "unit.h"

#include "base/media_type.h"

static void test_types(void **state)
{
    (void)state;
    static const struct {
        const char *path, *type;
    } cases[] = {
        {"sine.png", "image/png"},
        {"folder.txt/sine.PNG", "image/png"},
        {"a/b/table.csv", "text/csv; charset=utf-8"},
        {"notes.txt", "text/plain; charset=utf-8"},
        {"data.json", "application/json"},
        {"archive.tar.gz", "application/gzip"},
        {"page.html", "text/html; charset=utf-8"},
        {"drawing.svg", "image/svg+xml"},
        {"book.xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_string_equal(media_type(cases[i].path), cases[i].type);
}

static void test_unknown(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "",
        "png",
        ".png",
        "a/.png",
        "file.",
        "file.unheard-of",
        "folder.png/file",
        "a.png/",
        "x.png ",
        "x.pn\xc3\xa9",
        ".",
        "..",
        "a..",
        "x.png\n",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++)
        assert_string_equal(media_type(paths[i]), "application/octet-stream");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
