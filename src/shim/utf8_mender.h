/* Bytes that come in pieces, as UTF-8: what is no character becomes U+FFFD, and a character whose bytes come in two pieces
 * stays one. Zero-initialise. */
#pragma once

#include <stddef.h>

#include "base/buffer.h"

struct utf8_mender {
    char held[4]; /* the beginning of a character */
    size_t held_length;
};

/* Append what can be told of these bytes. 0 or -ENOMEM. */
int utf8_mender_feed(struct utf8_mender *mender, const char *bytes, size_t length,
                     struct buffer *out);
/* No more will come. */
int utf8_mender_end(struct utf8_mender *mender, struct buffer *out);
