/* A monotonic clock that stands still: what is bounded by time takes as long as it needs, however busy the machine is. The program's
 * own clock_gettime() is found before libc's. */
#pragma once

#include "unit.h"

#include <sys/syscall.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock == CLOCK_MONOTONIC) {
        *time = (struct timespec){.tv_sec = 1000};
        return 0;
    }
    return (int)syscall(SYS_clock_gettime, clock, time);
}
