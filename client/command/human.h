/* Quantities for people. */
#pragma once

#include <stdint.h>

enum {
    HUMAN_SIZE = 32 /* of a text with its NUL */
};

void human_bytes(uint64_t bytes, char text[HUMAN_SIZE]);      /* "8 B", "11.6 KB", "1.0 GB" */
void human_duration(uint64_t seconds, char text[HUMAN_SIZE]); /* "42s", "3m05s", "2h10m", "9d23h" */
/* Unix time of "2026-11-18T07:00:00Z"; -1: it is none. */
int64_t human_time(const char *timestamp);
