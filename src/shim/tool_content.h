/* Content of an MCP tool's result: what was shown, as text or images that a model can read. Pure. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "shim/recorder.h"
#include "shim/transcript.h"

struct tool_room {
    size_t text;   /* bytes that all texts may still have … */
    size_t images; /* … and all images */
};

/* Is this a type that goes into the content as it is, as base64? */
bool tool_content_is_media(const char *type);

/* Append `text` as a text item, with a comma in front unless it is the first in `out`. 0, -ENOSPC or -ENOMEM. */
int tool_content_text(struct buffer *out, const char *text, size_t length);
/* What one display shows: its image if there is one, else the most readable text. Nothing may be appended. *ret_cut: something was
 * left out. */
int tool_content_display(const json_t *content, struct tool_room *room, struct buffer *out,
                         bool *ret_cut);
/* What was written to a stream, with its name if it is stderr; nothing if that is empty. `whole` as of transcript_render(). */
int tool_content_stream(const struct transcript *transcript, const char *whole,
                        enum text_stream stream, struct buffer *out);
/* Files, as links, or as lines of a text for clients of before 2025-06-18, who do not know links. `files`: an array of entries
 * as of file_links_entry(). */
int tool_content_files(const char *sandbox, bool links, const json_t *files, struct buffer *out);
