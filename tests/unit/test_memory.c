#include "unit.h"

#include "base/memory.h"

static void memory_is_zeroed(void **state _unused_)
{
    /* Dirty blocks of this size first, so that fresh pages do not pass by luck. */
    enum {
        SIZE = 4000
    };
    for (int i = 0; i < 16; i++) {
        char *dirty = malloc(SIZE);
        assert_non_null(dirty);
        memset(dirty, 0xee, SIZE);
        __asm__ volatile("" ::"r"(dirty) : "memory");
        free(dirty);
        _cleanup_free_ char *memory = must_alloc(SIZE);
        for (size_t k = 0; k < SIZE; k++)
            assert_int_equal(memory[k], 0);
    }
}

static void copies_are_separate(void **state _unused_)
{
    char original[] = "text";
    _cleanup_free_ char *copy = must_copy(original);
    original[0] = 'n';
    assert_string_equal(copy, "text");
}

static void formats_have_any_length(void **state _unused_)
{
    _cleanup_free_ char *text = must_format("%s-%0*d", "a", 500, 7);
    assert_int_equal(strlen(text), 502);
    assert_memory_equal(text, "a-000", 5);
    assert_int_equal(text[501], '7');
}

static void ask_for_too_much(void *user)
{
    const size_t *size = user;
    (void)close(STDERR_FILENO);
    free(must_alloc(*size));
}

static void out_of_memory_aborts(void **state _unused_)
{
    size_t size = SIZE_MAX / 4;
    int status = in_child(ask_for_too_much, &size);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed),
        cmocka_unit_test(copies_are_separate),
        cmocka_unit_test(formats_have_any_length),
        cmocka_unit_test(out_of_memory_aborts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
