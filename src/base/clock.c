#include "base/clock.h"

#include <stdio.h>
#include <time.h>

uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int64_t wall_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec;
}

int64_t up_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec;
}

void format_timestamp(int64_t unix_seconds, char text[TIMESTAMP_SIZE])
{
    time_t seconds = unix_seconds;
    struct tm parts;
    if (!gmtime_r(&seconds, &parts) ||
        strftime(text, TIMESTAMP_SIZE, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        text[0] = '\0';
}

void format_timestamp_micros(char text[TIMESTAMP_SIZE])
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    struct tm parts;
    gmtime_r(&now.tv_sec, &parts);
    size_t used = strftime(text, TIMESTAMP_SIZE, "%Y-%m-%dT%H:%M:%S", &parts);
    (void)snprintf(text + used, TIMESTAMP_SIZE - used, ".%06uZ",
                   (unsigned)(now.tv_nsec / 1000) % 1000000u);
}
