/* Who may see what, and how often somebody may ask. */
#include "unit.h"

#include "base/allowance.h"
#include "huskd/caller.h"

static void test_callers(void **state)
{
    (void)state;
    struct callers *callers = callers_new();
    struct caller *admin = callers_admin(callers), *alice = callers_get(callers, "alice");
    assert_true(admin->admin);
    assert_ptr_equal(callers_get(callers, ADMIN_NAME), admin);
    assert_ptr_equal(callers_get(callers, "alice"), alice);
    assert_false(alice->admin || alice->keyed);
    struct caller *bob = callers_get(callers, "bob");
    assert_true(caller_may_see(alice, alice));
    assert_false(caller_may_see(alice, bob));
    assert_false(caller_may_see(alice, admin));
    assert_true(caller_may_see(admin, alice));
    assert_false(caller_may_see(admin, NULL));
    assert_false(caller_may_see(alice, NULL));
    callers_free(callers);
    assert_null(callers_free(NULL));
}

static void test_rate(void **state)
{
    (void)state;
    struct caller caller = {.quotas = {.requests_per_second = 2, .burst = 3}};
    unsigned seconds = 0;
    for (int i = 0; i < 3; i++)
        assert_true(caller_may_ask(&caller, 1000, &seconds));
    assert_false(caller_may_ask(&caller, 1000, &seconds));
    assert_int_equal(seconds, 1);
    assert_false(caller_may_ask(&caller, 1400, &seconds));
    assert_true(caller_may_ask(&caller, 1501, &seconds));
    assert_false(caller_may_ask(&caller, 1502, &seconds));
    /* However long the silence: never more than the burst. */
    for (int i = 0; i < 3; i++)
        assert_true(caller_may_ask(&caller, 1000000, &seconds));
    assert_false(caller_may_ask(&caller, 1000000, &seconds));
    /* A clock that stands still or goes back gives nothing. */
    assert_false(caller_may_ask(&caller, 5, &seconds));
    caller.quotas = (struct quotas){0};
    for (int i = 0; i < 1000; i++)
        assert_true(caller_may_ask(&caller, 5, &seconds));
}

static void test_burst_of_its_own(void **state)
{
    (void)state;
    struct caller caller = {.quotas = {.requests_per_second = 5}};
    unsigned seconds, taken = 0;
    while (caller_may_ask(&caller, 1, &seconds))
        taken++;
    assert_int_equal(taken, 10);
}

static void test_slow_allowance(void **state)
{
    (void)state;
    struct allowance allowance = {0};
    struct allowance_rate rate = {.per_second = 1, .burst = 1};
    uint64_t wait = 0;
    assert_true(allowance_take(&allowance, rate, 1, NULL));
    assert_false(allowance_take(&allowance, rate, 1, &wait));
    assert_in_range(wait, 1000, 1001);
    assert_false(allowance_take(&allowance, rate, 500, NULL));
    assert_true(allowance_take(&allowance, rate, 1 + wait, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_callers),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_burst_of_its_own),
        cmocka_unit_test(test_slow_allowance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
