#include "unit.h"

#include "husk/limits.h"
#include "shim/kept_results.h"

static const char *id_of(size_t number)
{
    static char id[64];
    (void)snprintf(id, sizeof id, "0b5a7e5e-0000-4000-8000-%012zu", number);
    return id;
}

static int set_up(void **state)
{
    *state = kept_results_new();
    return 0;
}

static int tear_down(void **state)
{
    assert_null(kept_results_free(*state));
    return 0;
}

/* A payload of this length that begins with its number. */
static void add(void **state, size_t number, size_t length)
{
    struct buffer payload = BUFFER_LIMITED(MAX_ANSWER_BYTES);
    char *data = buffer_reserve(&payload, length);
    assert_non_null(data);
    memset(data, '.', length);
    memcpy(data, &number, sizeof number);
    buffer_grow(&payload, length);
    kept_results_add(*state, id_of(number), NULL, &payload);
    assert_null(payload.data);
    assert_int_equal(payload.length, 0);
}

static bool kept(void **state, size_t number, size_t length)
{
    const struct buffer *found = kept_results_find(*state, id_of(number));
    if (!found)
        return false;
    assert_int_equal(found->length, length);
    assert_memory_equal(found->data, &number, sizeof number);
    return true;
}

static void found_again(void **state)
{
    assert_null(kept_results_find(*state, id_of(1)));
    add(state, 1, 100);
    add(state, 2, 200);
    for (int i = 0; i < 2; i++) { /* as often as it is asked for */
        assert_true(kept(state, 1, 100));
        assert_true(kept(state, 2, 200));
    }
    assert_null(kept_results_find(*state, ""));
    assert_null(kept_results_find(*state, "0b5a7e5e"));
    assert_null(kept_results_find(*state, "0b5a7e5e-0000-4000-8000-0000000000010"));
    assert_null(kept_results_free(NULL));
}

static void too_many(void **state)
{
    for (size_t i = 0; i < MAX_KEPT_RESULTS; i++)
        add(state, i, 10 + i);
    assert_true(kept(state, 0, 10));
    for (size_t i = MAX_KEPT_RESULTS; i < 3 * MAX_KEPT_RESULTS; i++) {
        add(state, i, 10 + i);
        assert_false(kept(state, i - MAX_KEPT_RESULTS, 0));
        for (size_t j = i - MAX_KEPT_RESULTS + 1; j <= i; j++)
            assert_true(kept(state, j, 10 + j));
    }
}

static void too_large(void **state)
{
    add(state, 1, MAX_KEPT_BYTES / 4);
    add(state, 2, MAX_KEPT_BYTES / 4);
    add(state, 3, MAX_KEPT_BYTES / 2);
    assert_true(kept(state, 1, MAX_KEPT_BYTES / 4)); /* exactly what there may be */
    add(state, 4, 10);
    assert_false(kept(state, 1, 0));
    assert_true(kept(state, 2, MAX_KEPT_BYTES / 4));
    /* As many of the oldest as it takes, and room is given back for what was forgotten. */
    add(state, 5, MAX_KEPT_BYTES / 2);
    assert_false(kept(state, 2, 0));
    assert_false(kept(state, 3, 0));
    assert_true(kept(state, 4, 10));
    assert_true(kept(state, 5, MAX_KEPT_BYTES / 2));
    add(state, 6, MAX_KEPT_BYTES / 2 - 10);
    assert_true(kept(state, 4, 10));
}

/* The newest is kept, whatever it takes. */
static void larger_than_everything(void **state)
{
    add(state, 1, 100);
    struct buffer payload = {0};
    assert_non_null(buffer_reserve(&payload, MAX_KEPT_BYTES + 1));
    buffer_grow(&payload, MAX_KEPT_BYTES + 1);
    size_t number = 2;
    memcpy(payload.data, &number, sizeof number);
    kept_results_add(*state, id_of(2), &payload);
    assert_false(kept(state, 1, 0));
    assert_true(kept(state, 2, MAX_KEPT_BYTES + 1));
    add(state, 3, 100);
    assert_false(kept(state, 2, 0));
    assert_true(kept(state, 3, 100));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(found_again),
        TEST(too_many),
        TEST(too_large),
        TEST(larger_than_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
