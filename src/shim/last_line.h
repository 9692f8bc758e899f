/* The last line that was put out, for progress notifications of MCP. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "husk/limits.h"

/* Zero is a good beginning. */
struct last_line {
    char text[MAX_TOOL_LINE_BYTES + 1];
    size_t length;
    bool ended; /* what comes next begins a new one */
};

void last_line_add(struct last_line *line, const char *text, size_t length);
/* How it goes on: members of a progress notification, without braces and line ends. `running`: or it waits for its turn. */
int last_line_progress(const struct last_line *line, uint64_t elapsed_ms, bool running,
                       struct buffer *out);
