#include "unit.h"

#include "../../kernel_image/venv_text.c"

static void names(void **state)
{
    (void)state;
    assert_true(same_package("PyYAML", "pyyaml"));
    assert_true(same_package("ruamel.yaml", "Ruamel_YAML"));
    assert_true(same_package("a-._b", "a.b"));
    assert_false(same_package("ab", "a-b"));
    assert_false(same_package("numpy", "numpy-x"));
    assert_false(same_package("", "a"));
}

static void paths(void **state)
{
    (void)state;
    char path[PATH_MAX];
    static const char site[] = "lib/python3.13/site-packages";
    assert_true(resolve_below(site, "x/y.py", path, sizeof path));
    assert_string_equal(path, "lib/python3.13/site-packages/x/y.py");
    assert_true(resolve_below(site, "../../../bin/x", path, sizeof path));
    assert_string_equal(path, "bin/x");
    assert_true(resolve_below(site, "./a//b/../c", path, sizeof path));
    assert_string_equal(path, "lib/python3.13/site-packages/a/c");
    assert_false(resolve_below(site, "/etc/passwd", path, sizeof path));
    assert_false(resolve_below(site, "../../../../home/user/x", path, sizeof path));
    assert_false(resolve_below(site, "../../..", path, sizeof path));
    assert_false(resolve_below(site, "a/b/c", path, 8));
}

static void records(void **state)
{
    (void)state;
    char path[64];
    FILE *file = tmpfile();
    assert_non_null(file);
    (void)fputs("a.py,sha256=x,1\n\"with, comma.py\",,\n\"quo\"\"te\",,\r\n\n", file);
    for (int i = 0; i < 3 * PATH_MAX; i++)
        (void)fputc('x', file);
    (void)fputs(",,\nlast", file);
    rewind(file);
    static const char *const expected[] = {"a.py", "with, comma.py", "quo\"te", "last"};
    for (size_t i = 0; i < ARRAY_LENGTH(expected); i++) {
        assert_true(read_record_line(file, path, sizeof path));
        assert_string_equal(path, expected[i]);
    }
    assert_false(read_record_line(file, path, sizeof path));
    (void)fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(paths),
                                       cmocka_unit_test(records)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
