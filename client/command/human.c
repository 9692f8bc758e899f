#include "command/human.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/attributes.h"

void human_bytes(uint64_t bytes, char text[HUMAN_SIZE])
{
    static const char *const units[] = {"B", "KB", "MB", "GB", "TB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1023.95 && unit + 1 < ARRAY_LENGTH(units)) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(text, HUMAN_SIZE, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

void human_duration(uint64_t seconds, char text[HUMAN_SIZE])
{
    uint64_t minutes = seconds / 60, hours = minutes / 60, days = hours / 24;
    if (days > 0)
        (void)snprintf(text, HUMAN_SIZE, "%" PRIu64 "d%02" PRIu64 "h", days, hours % 24);
    else if (hours > 0)
        (void)snprintf(text, HUMAN_SIZE, "%" PRIu64 "h%02" PRIu64 "m", hours, minutes % 60);
    else if (minutes > 0)
        (void)snprintf(text, HUMAN_SIZE, "%" PRIu64 "m%02" PRIu64 "s", minutes, seconds % 60);
    else
        (void)snprintf(text, HUMAN_SIZE, "%" PRIu64 "s", seconds);
}

int64_t human_time(const char *timestamp)
{
    struct tm parts = {};
    const char *end = strptime(timestamp, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return end && !*end ? (int64_t)timegm(&parts) : -1;
}
