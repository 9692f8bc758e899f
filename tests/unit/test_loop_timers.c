/* The timers of loop/loop. */
#include "unit.h"

#include "base/clock.h"
#include "loop/loop.h"

enum {
    TIMERS = 8,
    MANY = 500,
    STOPPED = 42,
    HOUR_MS = 3600 * 1000,
    HANGING_MS = 20000
};

struct fixture {
    struct loop *loop;
    struct timer *timers[TIMERS];
    int calls[TIMERS];
    char order[64];
};

static void hangs(struct timer *timer _unused_, void *user)
{
    struct fixture *fixture = user;
    loop_stop(fixture->loop, -ETIMEDOUT);
}

static void stop(struct timer *timer _unused_, void *user)
{
    struct fixture *fixture = user;
    loop_stop(fixture->loop, STOPPED);
}

static void note(struct timer *timer, void *user)
{
    struct fixture *fixture = user;
    for (int i = 0; i < TIMERS; i++) {
        if (fixture->timers[i] != timer)
            continue;
        assert_false(timer_armed(timer));
        fixture->calls[i]++;
        size_t length = strlen(fixture->order);
        if (length + 1 < sizeof fixture->order)
            fixture->order[length] = (char)('0' + i);
    }
}

static int open_loop(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.loop = loop_new()};
    if (!fixture.loop)
        return -1;
    for (int i = 0; i < TIMERS; i++)
        fixture.timers[i] = timer_add(fixture.loop, note, &fixture);
    /* A test that fails must not wait for ever. */
    timer_arm(timer_add(fixture.loop, hangs, &fixture), HANGING_MS);
    *state = &fixture;
    return 0;
}

static int close_loop(void **state)
{
    struct fixture *fixture = *state;
    fixture->loop = loop_free(fixture->loop);
    return 0;
}

/* Run until everything due within that time has been called. */
static void run_for(struct fixture *fixture, uint64_t milliseconds)
{
    struct timer *timer = timer_add(fixture->loop, stop, fixture);
    timer_arm(timer, milliseconds);
    assert_int_equal(loop_run(fixture->loop), STOPPED);
    timer_remove(timer);
}

static void timers_fire_in_the_order_of_their_times(void **state)
{
    struct fixture *fixture = *state;
    static const uint64_t times[TIMERS] = {13, 1, 9, 5, 15, 3, 11, 7};
    uint64_t begin;
    do { /* all within one millisecond: only then are the times those of the table */
        begin = now_ms();
        for (int i = 0; i < TIMERS; i++)
            timer_arm(fixture->timers[i], times[i]);
    } while (now_ms() != begin);
    run_for(fixture, 17);
    assert_string_equal(fixture->order, "15372604");
    assert_true(now_ms() - begin >= 17);
}

static void a_timer_starts_disarmed_and_fires_once_per_arming(void **state)
{
    struct fixture *fixture = *state;
    assert_false(timer_armed(fixture->timers[0]));
    run_for(fixture, 2);
    assert_int_equal(fixture->calls[0], 0);
    timer_arm(fixture->timers[0], 1);
    assert_true(timer_armed(fixture->timers[0]));
    run_for(fixture, 5);
    assert_int_equal(fixture->calls[0], 1);
    assert_false(timer_armed(fixture->timers[0]));
    timer_arm(fixture->timers[0], 0);
    run_for(fixture, 2);
    assert_int_equal(fixture->calls[0], 2);
}

static void arming_again_replaces(void **state)
{
    struct fixture *fixture = *state;
    uint64_t begin;
    do {
        begin = now_ms();
        timer_arm(fixture->timers[0], 1);
        timer_arm(fixture->timers[0], HOUR_MS); /* later */
        timer_arm(fixture->timers[1], HOUR_MS);
        timer_arm(fixture->timers[1], 3); /* earlier */
        timer_arm(fixture->timers[2], 2);
    } while (now_ms() != begin);
    run_for(fixture, 6);
    assert_string_equal(fixture->order, "21");
    assert_true(timer_armed(fixture->timers[0]));
}

static void a_disarmed_timer_does_not_fire(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < TIMERS; i++)
        timer_arm(fixture->timers[i], (uint64_t)i);
    for (int i = 0; i < TIMERS; i += 2)
        timer_disarm(fixture->timers[i]);
    assert_false(timer_armed(fixture->timers[0]));
    timer_disarm(fixture->timers[0]);
    run_for(fixture, TIMERS + 2);
    assert_string_equal(fixture->order, "1357");
}

static void arm_again(struct timer *timer, void *user)
{
    struct fixture *fixture = user;
    if (++fixture->calls[0] < 5)
        timer_arm(timer, 1);
    else
        loop_stop(fixture->loop, STOPPED);
}

static void a_timer_can_arm_itself(void **state)
{
    struct fixture *fixture = *state;
    struct timer *timer = timer_add(fixture->loop, arm_again, fixture);
    uint64_t begin = now_ms();
    timer_arm(timer, 1);
    assert_int_equal(loop_run(fixture->loop), STOPPED);
    assert_int_equal(fixture->calls[0], 5);
    assert_true(now_ms() - begin >= 5);
}

static void remove_itself(struct timer *timer, void *user)
{
    struct fixture *fixture = user;
    fixture->calls[0]++;
    assert_null(timer_remove(timer));
}

static void a_timer_can_remove_itself(void **state)
{
    struct fixture *fixture = *state;
    timer_arm(timer_add(fixture->loop, remove_itself, fixture), 0);
    timer_arm(fixture->timers[1], 1);
    run_for(fixture, 3);
    assert_int_equal(fixture->calls[0], 1);
    assert_int_equal(fixture->calls[1], 1);
    assert_null(timer_remove(NULL));
}

static void remove_and_disarm_others(struct timer *timer _unused_, void *user)
{
    struct fixture *fixture = user;
    fixture->timers[0] = timer_remove(fixture->timers[0]);
    fixture->timers[1] = timer_remove(fixture->timers[1]);
    timer_disarm(fixture->timers[2]);
    timer_arm(fixture->timers[3], HOUR_MS);
    timer_arm(fixture->timers[4], 0); /* was not armed */
}

static void timers_that_are_due_together_can_be_removed(void **state)
{
    struct fixture *fixture = *state;
    /* Armed for the past by the time the loop runs, so that all are due in one round. */
    timer_arm(timer_add(fixture->loop, remove_and_disarm_others, fixture), 0);
    uint64_t begin = now_ms();
    while (now_ms() == begin)
        ;
    for (int i = 0; i < 4; i++)
        timer_arm(fixture->timers[i], 0);
    timer_arm(fixture->timers[5], 0);
    begin = now_ms();
    while (now_ms() == begin)
        ;
    run_for(fixture, 3);
    assert_string_equal(fixture->order, "54");
    assert_true(timer_armed(fixture->timers[3]));
}

static void add_new(struct timer *timer, void *user)
{
    struct fixture *fixture = user;
    fixture->timers[0] = timer_remove(fixture->timers[0]);
    fixture->timers[7] = timer_add(fixture->loop, note, fixture);
    timer_arm(fixture->timers[7], 1);
    timer_remove(timer);
}

static void a_callback_can_add_timers(void **state)
{
    struct fixture *fixture = *state;
    timer_remove(fixture->timers[7]);
    fixture->timers[7] = NULL;
    timer_arm(fixture->timers[0], 2);
    timer_arm(timer_add(fixture->loop, add_new, fixture), 0);
    run_for(fixture, 5);
    assert_string_equal(fixture->order, "7");
}

static void stop_and_note(struct timer *timer, void *user)
{
    note(timer, user);
    stop(timer, user);
}

static void timers_that_are_due_when_the_loop_stops_fire_when_it_runs_again(void **state)
{
    struct fixture *fixture = *state;
    struct timer *first = timer_add(fixture->loop, stop_and_note, fixture);
    timer_arm(first, 0);
    uint64_t begin = now_ms();
    while (now_ms() == begin)
        ;
    timer_arm(fixture->timers[0], 0);
    assert_int_equal(loop_run(fixture->loop), STOPPED);
    assert_int_equal(fixture->calls[0], 0);
    run_for(fixture, 2);
    assert_int_equal(fixture->calls[0], 1);
}

/* --- many, in random order ------------------------------------------------------------------- */

struct one {
    struct timer *timer;
    uint64_t due;
    int expected, calls;
};

static struct one many[MANY];
static uint64_t last_due;

static void fire_one(struct timer *timer, void *user)
{
    struct one *one = user;
    one->calls++;
    assert_ptr_equal(timer, one->timer);
    assert_true(now_ms() >= one->due);
    if (one->due < last_due)
        fail_msg("a timer for %llu fired after one for %llu", (unsigned long long)one->due,
                 (unsigned long long)last_due);
    last_due = one->due;
}

/* The due time is known to the millisecond only if the clock did not move on meanwhile. */
static void arm_one(struct one *one, uint64_t milliseconds)
{
    do {
        one->due = now_ms() + milliseconds;
        timer_arm(one->timer, milliseconds);
    } while (now_ms() + milliseconds != one->due);
}

static void many_timers_keep_their_order(void **state)
{
    struct fixture *fixture = *state;
    unsigned seed = 12345;
    last_due = 0;
    for (int i = 0; i < MANY; i++) {
        many[i] =
            (struct one){.timer = timer_add(fixture->loop, fire_one, &many[i]), .expected = 1};
        arm_one(&many[i], (uint64_t)rand_r(&seed) % 40);
    }
    for (int i = 0; i < MANY; i++) {
        struct one *one = &many[(unsigned)rand_r(&seed) % MANY];
        if (!one->timer)
            continue;
        switch (rand_r(&seed) % 3) {
        case 0:
            arm_one(one, (uint64_t)rand_r(&seed) % 40);
            one->expected = 1;
            break;
        case 1:
            timer_disarm(one->timer);
            one->expected = 0;
            break;
        default:
            one->timer = timer_remove(one->timer);
            one->expected = 0;
        }
    }
    run_for(fixture, 50);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(many[i].calls, many[i].expected);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_loop, close_loop)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(timers_fire_in_the_order_of_their_times),
        TEST(a_timer_starts_disarmed_and_fires_once_per_arming),
        TEST(arming_again_replaces),
        TEST(a_disarmed_timer_does_not_fire),
        TEST(a_timer_can_arm_itself),
        TEST(a_timer_can_remove_itself),
        TEST(timers_that_are_due_together_can_be_removed),
        TEST(a_callback_can_add_timers),
        TEST(timers_that_are_due_when_the_loop_stops_fire_when_it_runs_again),
        TEST(many_timers_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
