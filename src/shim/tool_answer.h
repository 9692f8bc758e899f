/* A recorder that keeps the output of an execution for a model: the result of an MCP tool. Text is short, images are content
 * of their own, files are links, and an error comes with advice. The answer of API.md is in it too ("structuredContent"), without
 * the data of images, which would be there twice.
 *
 * Life: tool_answer_new → (as a recorder) → tool_answer_render → tool_answer_free. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buffer.h"
#include "shim/outputs.h"
#include "shim/recorder.h"

struct tool_answer;
struct tool_order;

/* Copies what it needs of the order. */
struct tool_answer *tool_answer_new(const struct tool_order *order);
struct tool_answer *tool_answer_free(struct tool_answer *answer); /* NULL ok, returns NULL */
struct recorder *tool_answer_recorder(struct tool_answer *answer);

/* Forget all output: there is no room for it. */
void tool_answer_empty(struct tool_answer *answer);

/* What else is in it. Borrowed. */
struct tool_frame {
    const struct outputs *outputs;
    const struct verdict *verdict;
    json_t *files; /* an array */
    bool files_truncated;
};

/* Append "content", "structuredContent" and "isError", as members without braces and without line ends. 0, -ENOSPC or
 * -ENOMEM. */
int tool_answer_render(const struct tool_answer *answer, const struct tool_frame *frame,
                       struct buffer *out);

/* How it goes on: members of a progress notification, likewise. `running`: or it waits for its turn. */
int tool_answer_progress(const struct tool_answer *answer, uint64_t elapsed_ms, bool running,
                         struct buffer *out);
