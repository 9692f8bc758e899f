/* Running the loop of what is tested for a while. */
#pragma once

#include "unit.h"

#include "loop/loop.h"

static void fake_time_is_up(struct timer *timer, void *user)
{
    (void)timer;
    loop_stop(user, -ETIMEDOUT);
}

/* Let everybody work for a while. */
_unused_ static void run_for(struct loop *loop, uint64_t milliseconds)
{
    struct timer *timer = timer_add(loop, fake_time_is_up, loop);
    timer_arm(timer, milliseconds);
    assert_int_equal(loop_run(loop), -ETIMEDOUT);
    timer_remove(timer);
}

/* Until the condition holds; at most five seconds. */
#define RUN_UNTIL(loop, condition)                                                                 \
    do {                                                                                           \
        for (int i_ = 0; i_ < 1000 && !(condition); i_++)                                          \
            run_for(loop, 5);                                                                      \
        assert_true(condition);                                                                    \
    } while (0)
