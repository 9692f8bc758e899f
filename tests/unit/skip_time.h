/* A clock that tests put forward: time-outs of seconds pass at once. The program's own clock_gettime() is found before libc's. */
#pragma once

#include "unit.h"

#include <sys/syscall.h>
#include <time.h>

static int64_t skipped_ms;

int clock_gettime(clockid_t clock, struct timespec *time)
{
    long r = syscall(SYS_clock_gettime, clock, time);
    if (r == 0 && clock == CLOCK_MONOTONIC) {
        time->tv_sec += skipped_ms / 1000;
        time->tv_nsec += skipped_ms % 1000 * 1000000;
        time->tv_sec += time->tv_nsec / 1000000000;
        time->tv_nsec %= 1000000000;
    }
    return (int)r;
}

_unused_ static void skip_time(int64_t milliseconds)
{
    skipped_ms += milliseconds;
}
