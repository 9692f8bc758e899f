#include "unit.h"

#include "base/failure.h"
#include "base/fdio.h"

static void fail_says_what_and_why(void **state _unused_)
{
    struct failure why = {0};
    assert_int_equal(fail(&why, EACCES, "open %s", "/x"), -EACCES);
    assert_int_equal(why.code, EACCES);
    assert_string_equal(why.text, "open /x: Permission denied");
}

static void the_code_may_have_either_sign(void **state _unused_)
{
    struct failure why = {0};
    assert_int_equal(fail(&why, -ENOENT, "read"), -ENOENT);
    assert_int_equal(why.code, ENOENT);
    assert_string_equal(why.text, "read: No such file or directory");
    assert_int_equal(fail_plain(&why, -EPERM, "no"), -EPERM);
    assert_int_equal(why.code, EPERM);
}

static void fail_plain_adds_nothing(void **state _unused_)
{
    struct failure why = {0};
    assert_int_equal(fail_plain(&why, EINVAL, "%d is not a %s", 3, "port"), -EINVAL);
    assert_int_equal(why.code, EINVAL);
    assert_string_equal(why.text, "3 is not a port");
}

static void nobody_need_listen(void **state _unused_)
{
    assert_int_equal(fail(NULL, EIO, "read %s", "x"), -EIO);
    assert_int_equal(fail_plain(NULL, -EIO, "read %s", "x"), -EIO);
}

static void long_texts_are_cut(void **state _unused_)
{
    char text[1000];
    struct {
        struct failure why;
        char guard[8];
    } place = {.guard = "guarded"};
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_int_equal(fail(&place.why, EIO, "%s", text), -EIO);
    assert_int_equal(strlen(place.why.text), sizeof place.why.text - 1);
    assert_int_equal(fail_plain(&place.why, EIO, "%s", text), -EIO);
    assert_int_equal(strlen(place.why.text), sizeof place.why.text - 1);
    assert_string_equal(place.guard, "guarded");
}

static void an_assertion_that_holds_does_nothing(void **state _unused_)
{
    int evaluated = 0;
    husk_assert(++evaluated == 1);
    assert_int_equal(evaluated, 1);
}

static void break_assertion(void *user)
{
    const int *output = user;
    (void)dup2(*output, STDERR_FILENO);
    husk_assert(output == NULL);
}

static void an_assertion_that_does_not_hold_aborts_and_says_where(void **state _unused_)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    int status = in_child(break_assertion, &ends[1]);
    close(ends[1]);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    char text[1024] = "";
    assert_true(read_some(ends[0], text, sizeof text - 1) > 0);
    close(ends[0]);
    assert_non_null(strstr(text, "output == NULL"));
    assert_non_null(strstr(text, "test_failure.c"));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_says_what_and_why),
        cmocka_unit_test(the_code_may_have_either_sign),
        cmocka_unit_test(fail_plain_adds_nothing),
        cmocka_unit_test(nobody_need_listen),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(an_assertion_that_holds_does_nothing),
        cmocka_unit_test(an_assertion_that_does_not_hold_aborts_and_says_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
