/* Running a program of the image: uv, curl. Its output is collected, bounded. While it runs the socket to huskd is watched: when
 * huskd hangs up, the program is killed. What it has started itself ends with the fetcher, the first of its pid namespace. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/failure.h"

struct program {
    const char *const *arguments; /* ended by NULL */
    const char *const *environment;
    const char *input;     /* for its stdin, at most a pipe full; NULL: none */
    uint64_t deadline_ms;  /* as of now_ms() */
    uint64_t largest_file; /* bytes */
    struct buffer *errors; /* what it says on stderr; beyond the buffer's limit it is dropped */
};

/* Its wait status, or -errno: -ETIMEDOUT when it was killed for the time it took, -EPIPE because huskd hung up. */
int program_run(const struct program *program, struct failure *why);
