/* A line on standard error that says how far something has come: when it is a terminal and nobody said --quiet. Of transfers only if they take longer
 * than a second. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct invocation;

struct progress {
    bool wanted, drawn;
    const char *label; /* borrowed */
    uint64_t started_ms, drawn_ms;
    /* What counts instead of the bytes that travel, if not NULL: of a folder that is packed meanwhile. */
    const uint64_t *done, *total;
};

void progress_begin(struct progress *progress, const struct invocation *invocation,
                    const char *label);
/* A husk_progress; `user` is the progress. */
int progress_bytes(uint64_t done, uint64_t total, void *user);
/* Something happens whose end is not known: its last line, at once, for the next one may take long. It may be of a stranger. */
void progress_text(struct progress *progress, const char *text);
/* The line goes away. */
void progress_end(struct progress *progress);
