/* Percent-encoding (RFC 3986), for paths in links and names in headers. Decoding is http/uri.h's. */
#pragma once

#include "base/buffer.h"

/* Append `text` to `out`: letters, digits and "-._~" as they are, and what is in `kept`, all other bytes as %XX. 0 or what
 * buffer_append() says. */
int percent_encode(const char *text, const char *kept, struct buffer *out);
