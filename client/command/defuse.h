/* Text of a sandbox on its way to a terminal. A program in there is a stranger: with control sequences it could rename the window, fill
 * the clipboard, type commands, or rewrite what stands above. What passes: characters in UTF-8, line feed, carriage return, tab,
 * backspace, colours (SGR) and "erase in line". Of all else the control characters become pictures (␛), and so the rest of
 * a sequence is harmless text. Bytes that are no UTF-8 become U+FFFD.
 *
 * A sequence may come in pieces: what is not yet decided waits for the next piece, or for defuse_end(). Zero-initialise. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

enum {
    DEFUSE_PENDING_BYTES = 48 /* of one sequence of colours; longer ones do not pass */
};

struct defuse {
    char pending[DEFUSE_PENDING_BYTES];
    size_t length;
    bool
        one_line; /* line feeds, carriage returns, tabs and backspaces become pictures, too: for names in tables */
    bool coloured; /* a colour may be left: defuse_end() ends it */
};

/* Memory that is out loses text. */
void defuse_text(struct defuse *defuse, const char *text, size_t length, struct buffer *out);
void defuse_end(struct defuse *defuse, struct buffer *out);
