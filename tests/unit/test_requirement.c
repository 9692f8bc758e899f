#include "unit.h"

#include "huskd/problem.h"
#include "huskd/requirement.h"

static const struct {
    const char *text, *name;
} good[] = {
    {"numpy", "numpy"},
    {"  numpy \n", "numpy"},
    {"Mixed.Case_Name", "mixed-case-name"},
    {"a--b__c", "a-b-c"},
    {"numpy>=2,<3", "numpy"},
    {"numpy >= 2 , < 3", "numpy"},
    {"numpy (>=2)", "numpy"},
    {"x==1.*", "x"},
    {"x===1.0+local", "x"},
    {"x~=1!2.0rc1", "x"},
    {"uvicorn[standard]==0.30.0", "uvicorn"},
    {"uvicorn [ standard , x ] != 0.30.0", "uvicorn"},
    {"tomli ; python_version < '3.11' and sys_platform != \"win32\"", "tomli"},
    {"7zip", "7zip"},
};

static const char *const bad[] = {
    "",
    " ",
    "-x",
    "x-",
    ".",
    "./x",
    "../x",
    "/etc/passwd",
    "x/y",
    "x\\y",
    "-r x.txt",
    "-e .",
    "--index-url=http://evil",
    "http://evil/x.whl",
    "git+ssh://evil/x",
    "file:///etc/passwd",
    "x @ http://evil/x.whl",
    "x@1",
    "x y",
    "x==",
    "x==1 2",
    "x=1",
    "x[",
    "x[]",
    "x[a",
    "x(>=1",
    "x>=1)",
    "x;",
    "x ; $(id)",
    "x ; os_name == 'a' # b",
    "x --hash=sha256:00",
    "x\ny",
    "x ; a\n-r y",
    "x.whl",
    "X.WHL",
    "x.tar.gz",
    "x.zip==1",
    "requirements.txt",
    "pyproject.toml",
    "\xc3\xa4",
    "x#y",
    "x%20y",
    "{x}",
};

static void accepts(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        char name[MAX_PACKAGE_NAME + 1];
        struct problem problem;
        assert_true(requirement_check(good[i].text, strlen(good[i].text), name, &problem));
        assert_string_equal(name, good[i].name);
    }
}

static void refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        char name[MAX_PACKAGE_NAME + 1];
        struct problem problem = {0};
        if (requirement_check(bad[i], strlen(bad[i]), name, &problem))
            fail_msg("'%s' must not be taken", bad[i]);
        assert_int_equal(problem.kind, PROBLEM_INVALID_FIELD);
    }
    char name[MAX_PACKAGE_NAME + 1], large[MAX_REQUIREMENT_BYTES + 2];
    struct problem problem;
    assert_false(requirement_check("a\0b", 3, name, &problem));
    memset(large, 'x', sizeof large);
    assert_false(requirement_check(large, MAX_PACKAGE_NAME + 1, name, &problem));
    assert_true(requirement_check(large, MAX_PACKAGE_NAME, name, &problem));
    memcpy(large, "x>=", 3);
    memset(large + 3, '1', sizeof large - 3);
    assert_false(requirement_check(large, MAX_REQUIREMENT_BYTES + 1, name, &problem));
}

static void says_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } cases[] = {{"-r x", "option"},
                 {"x @ http://y", "address"},
                 {"./x", "path"},
                 {"x y", "requirement such as"}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char name[MAX_PACKAGE_NAME + 1];
        struct problem problem;
        assert_false(requirement_check(cases[i].text, strlen(cases[i].text), name, &problem));
        assert_non_null(strstr(problem.detail, cases[i].said));
    }
}

static void reads_files(void **state)
{
    (void)state;
    static const char text[] = "# comment\r\n\n  numpy>=2  # why\r\npandas\n\n#x";
    struct problem problem;
    json_t *list = json_array();
    assert_true(requirements_parse(text, strlen(text), list, &problem));
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(json_string_value(json_array_get(list, 0)), "numpy>=2");
    assert_false(requirements_parse("a\n-r b\n", 7, list, &problem));
    assert_non_null(strstr(problem.detail, "option"));
    json_array_clear(list);
    for (int i = 0; i < MAX_REQUIREMENTS; i++)
        assert_true(requirement_add(list, "a", 1, &problem));
    assert_false(requirement_add(list, "a", 1, &problem));
    json_decref(list);
}

static void lists_of_names(void **state)
{
    (void)state;
    assert_true(package_listed("numpy, pandas", "pandas"));
    assert_true(package_listed("Scikit_Learn", "scikit-learn"));
    assert_true(package_listed("scikit__.learn", "scikit-learn"));
    assert_true(package_listed("py*", "pytest"));
    assert_true(package_listed("*", "anything"));
    assert_false(package_listed("", "numpy"));
    assert_false(package_listed("numpy", "numpy-financial"));
    assert_false(package_listed("num", "numpy"));
}

static void versions(void **state)
{
    (void)state;
    assert_true(package_version_valid("1.0.post1+local.2"));
    assert_true(package_version_valid("1!2026.1"));
    assert_false(package_version_valid(""));
    assert_false(package_version_valid("1.*"));
    assert_false(package_version_valid("1 2"));
    assert_false(package_version_valid("../x"));
    assert_false(package_version_valid("1\"\n[[packages]]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(accepts),
                                       cmocka_unit_test(refuses),
                                       cmocka_unit_test(says_what_is_wrong),
                                       cmocka_unit_test(reads_files),
                                       cmocka_unit_test(lists_of_names),
                                       cmocka_unit_test(versions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
