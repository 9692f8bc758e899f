/* Are the request line and headers written in the one way that every server reads alike? A proxy before us may share one connection
 * among its clients: what it and we read differently would let one of them write into the request of another. So whatever is
 * odd is refused and the connection closed, though RFC 9112 would let us accept some of it: names that are no tokens (a space before
 * the colon), folded lines, lines that end with a bare LF, NULs and other controls, lines without a name.
 *
 * libmicrohttpd from 1.0 on sees to most of that by itself, when asked to be strict. Before, it accepts all of it, and
 * gives a folded line to the *name* of the header before. It parses in place, though: the strings it gives us are still where
 * they came in, and between any two of them there must be just what belongs there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct MHD_Connection;

/* What came before the headers, as libmicrohttpd gave it. */
struct raw_line {
    const char *method;
    const char *target; /* its place: what is there is changed afterwards */
    size_t target_length;
    bool plain; /* no blanks or controls in it */
    const char *version;
};

/* When the target is there; method and version come later. */
struct raw_line raw_line_begin(const char *target);
/* NULL, or what is odd: the end of a sentence. */
const char *raw_form_fault(struct MHD_Connection *connection, const struct raw_line *line);
/* Can we be sure where a chunked body ends? Before 1.0 libmicrohttpd takes a bare LF in it for a line's end: then nothing more is
 * read from the connection. */
bool raw_form_trusts_chunks(void);
