/* Long texts in JSON. jansson takes 16 ms to read a megabyte and 11 ms to write it, one character
 * after the other; these take one or two. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/buffer.h"

/* Append `text`, which is UTF-8, as a string of JSON, with its quotes. 0, -ENOSPC or -ENOMEM. */
int quoted_append(struct buffer *out, const char *text, size_t length);

/* Decode what is between the quotes of a string of JSON into `out`, which has room for `length`
 * bytes. Gives their number. -EBADMSG: it is not right, or has escapes (\u0080 and above) that are
 * left to others. Does not check that it is UTF-8. */
ssize_t quoted_decode(const char *literal, size_t length, char *out);
