/* Time. Deadlines use the monotonic clock, what people see uses the real one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t now_ms(void);      /* monotonic */
int64_t wall_seconds(void); /* Unix time: may be set, and jump */
int64_t up_seconds(void);   /* since the machine was started, sleep included: never jumps */
/* "2026-11-18T07:00:00Z" into text; at least TIMESTAMP_SIZE bytes. */
enum {
    TIMESTAMP_SIZE = 32
};
void format_timestamp(int64_t unix_seconds, char text[TIMESTAMP_SIZE]);
/* Now with microseconds, as Jupyter headers want it: "2026-11-18T07:00:00.123456Z". */
void format_timestamp_micros(char text[TIMESTAMP_SIZE]);
