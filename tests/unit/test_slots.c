#include "unit.h"

#include "huskd/slots.h"

static char order[16];

struct waiter {
    struct slot slot;
    char name;
};

static void granted(struct slot *slot)
{
    size_t length = strlen(order);
    order[length] = ((struct waiter *)(void *)slot)->name;
    order[length + 1] = '\0';
}

static void test_first_come_first_served(void **state)
{
    (void)state;
    struct slots slots = {.limit = 2};
    struct waiter w[5];
    order[0] = '\0';
    for (int i = 0; i < 5; i++) {
        w[i] = (struct waiter){.slot.granted = granted, .name = (char)('a' + i)};
        slots_take(&slots, &w[i].slot);
    }
    assert_string_equal(order, "ab");
    assert_int_equal(slots.held, 2);
    assert_int_equal(slots.waiting, 3);
    slots_release(&slots, &w[1].slot);
    assert_string_equal(order, "abc");
    slots_release(&slots, &w[3].slot); /* leaves the line */
    assert_int_equal(slots.waiting, 1);
    slots_release(&slots, &w[0].slot);
    assert_string_equal(order, "abce");
    slots_release(&slots, &w[0].slot); /* a second time: nothing */
    slots_release(&slots, &w[3].slot);
    assert_int_equal(slots.held, 2);
    slots_release(&slots, &w[2].slot);
    slots_release(&slots, &w[4].slot);
    assert_int_equal(slots.held, 0);
    slots_take(&slots, &w[0].slot);
    assert_string_equal(order, "abcea");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_come_first_served)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
