#include "shim/last_line.h"

#include <inttypes.h>

#include "base/attributes.h"
#include "base/quoted.h"
#include "base/text.h"

/* The beginning of the last line that is not empty. A carriage return begins a line, too: progress bars. */
static void note(struct last_line *line, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '\n' || text[i] == '\r') {
            line->ended = true;
            continue;
        }
        if (line->ended) {
            line->length = 0;
            line->ended = false;
        }
        if (line->length < MAX_TOOL_LINE_BYTES)
            line->text[line->length++] = text[i];
    }
}

void last_line_add(struct last_line *line, const char *text, size_t length)
{
    /* Of a long text only the end can hold the last line. */
    size_t tail = length < 2 * MAX_TOOL_LINE_BYTES ? length : 2 * MAX_TOOL_LINE_BYTES;
    while (tail < length && tail > 0 && ((unsigned char)text[length - tail] & 0xc0) == 0x80)
        tail--;
    note(line, text + length - tail, tail);
}

int last_line_progress(const struct last_line *line, uint64_t elapsed_ms, bool running,
                       struct buffer *out)
{
    _cleanup_buffer_ struct buffer text = {0};
    size_t length = line->length;
    while (length > 0 && !utf8_valid(line->text, length))
        length--; /* it was cut in the middle of a character */
    int r = buffer_printf(&text, "%s for %" PRIu64 " s%s", running ? "running" : "waiting",
                          elapsed_ms / 1000, length ? ": " : "");
    if (r == 0)
        r = buffer_append(&text, line->text, length);
    if (r == 0)
        r = buffer_printf(out,
                          "\"progress\":%" PRIu64 ".%03" PRIu64 ",\"message\":", elapsed_ms / 1000,
                          elapsed_ms % 1000);
    return r == 0 ? quoted_append(out, text.data, text.length) : r;
}
