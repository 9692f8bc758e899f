#include "base/allowance.h"

#include <stddef.h>

bool allowance_take(struct allowance *allowance, struct allowance_rate rate, uint64_t now_ms,
                    uint64_t *ret_wait_ms)
{
    double burst = (double)rate.burst, per_ms = (double)rate.per_second / 1000;
    if (allowance->at_ms == 0)
        allowance->left = burst;
    else if (now_ms > allowance->at_ms)
        allowance->left += (double)(now_ms - allowance->at_ms) * per_ms;
    if (allowance->left > burst)
        allowance->left = burst;
    allowance->at_ms = now_ms ? now_ms : 1;
    if (allowance->left >= 1) {
        allowance->left -= 1;
        return true;
    }
    if (ret_wait_ms)
        *ret_wait_ms = (uint64_t)((1 - allowance->left) / per_ms) + 1;
    return false;
}
