/* Standard input and output of `husk mcp`: one JSON-RPC message a line. What is read is bounded; what is written waits here until
 * the client takes it, whole lines one after the other. Neither waits for the client.
 *
 * A terminal is left as it is; anything else does not block while the bridge lives, and is put back as it was. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

struct lines {
    struct buffer input; /* what was read and is not given out yet */
    size_t looked;       /* of it, so much has no line end */
    size_t given;        /* of it, so much was given out */
    bool skipping;       /* the rest of a line that is too long */
    bool ended;          /* nothing more will be read */
    struct buffer output;
    size_t written; /* of it */
    bool broken;    /* nobody reads it any more */
    int input_flags, output_flags;
};

enum line_kind {
    LINE_NONE, /* no whole one is there: read on */
    LINE_GOOD,
    LINE_TOO_LONG /* it was thrown away */
};

void lines_open(struct lines *lines);
void lines_close(struct lines *lines); /* what still waits is written if that needs no waiting */

/* Read once, if there is something. */
void lines_read(struct lines *lines);
/* The next line without its end, borrowed until the next call. Empty ones are left out; what stands between the last line end
 * and the end of input is a line. */
enum line_kind lines_next(struct lines *lines, const char **text, size_t *length);

/* Queue a message. Line ends in it, which in JSON can only be between its parts, become blanks. */
void lines_write(struct lines *lines, const char *text, size_t length);
void lines_flush(struct lines *lines);
size_t lines_waiting(const struct lines *lines); /* bytes */
