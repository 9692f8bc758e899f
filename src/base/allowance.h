/* So many at once, and so many a second after that: a bucket that fills up again. Pure: the time is given. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct allowance {
    double left;
    uint64_t at_ms; /* when it was that; 0: never used, it is full */
};

struct allowance_rate {
    uint64_t per_second; /* at least 1 */
    uint64_t burst;      /* at least 1 */
};

/* Take one. False: there is none; *ret_wait_ms (NULL ok) is how long until there is. */
bool allowance_take(struct allowance *allowance, struct allowance_rate rate, uint64_t now_ms,
                    uint64_t *ret_wait_ms);
