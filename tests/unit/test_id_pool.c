#include "unit.h"

#include "keeper/id_pool.h"

enum {
    FIRST = 1000,
    COUNT = 5
};

static int open_pool(void **state)
{
    *state = id_pool_new(FIRST, COUNT);
    return 0;
}

static int close_pool(void **state)
{
    assert_null(id_pool_free(*state));
    return 0;
}

static uid_t take(struct id_pool *pool)
{
    uid_t id = 0;
    assert_int_equal(id_pool_take(pool, &id), 0);
    return id;
}

static void assert_empty(struct id_pool *pool)
{
    uid_t id = 7;
    assert_int_equal(id_pool_take(pool, &id), -EAGAIN);
    assert_int_equal(id, 7);
}

static void each_id_is_handed_out_once(void **state)
{
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(take(*state), FIRST + i);
    assert_empty(*state);
    assert_empty(*state);
}

static void what_is_given_back_is_handed_out_again(void **state)
{
    for (unsigned i = 0; i < COUNT; i++)
        (void)take(*state);
    id_pool_give_back(*state, FIRST + 3);
    assert_int_equal(take(*state), FIRST + 3);
    assert_empty(*state);
}

static void an_id_rests_before_it_is_used_again(void **state)
{
    assert_int_equal(take(*state), FIRST);
    id_pool_give_back(*state, FIRST);
    for (unsigned i = 1; i < COUNT; i++)
        assert_int_equal(take(*state), FIRST + i);
    assert_int_equal(take(*state), FIRST);
    assert_empty(*state);
}

static void claimed_ids_are_not_handed_out(void **state)
{
    id_pool_claim(*state, FIRST);
    id_pool_claim(*state, FIRST + 2);
    id_pool_claim(*state, FIRST + 2);
    assert_int_equal(take(*state), FIRST + 1);
    assert_int_equal(take(*state), FIRST + 3);
    assert_int_equal(take(*state), FIRST + 4);
    assert_empty(*state);
    id_pool_give_back(*state, FIRST + 2);
    assert_int_equal(take(*state), FIRST + 2);
}

static void ids_of_others_do_not_matter(void **state)
{
    static const uid_t strangers[] = {0, FIRST - 1, FIRST + COUNT, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LENGTH(strangers); i++) {
        id_pool_claim(*state, strangers[i]);
        id_pool_give_back(*state, strangers[i]);
    }
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(take(*state), FIRST + i);
    assert_empty(*state);
}

static void an_empty_pool_has_nothing(void **state _unused_)
{
    struct id_pool *pool = id_pool_new(FIRST, 0);
    assert_empty(pool);
    assert_null(id_pool_free(pool));
    assert_null(id_pool_free(NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pool, close_pool)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(each_id_is_handed_out_once),          TEST(what_is_given_back_is_handed_out_again),
        TEST(an_id_rests_before_it_is_used_again), TEST(claimed_ids_are_not_handed_out),
        TEST(ids_of_others_do_not_matter),         TEST(an_empty_pool_has_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
