/* JSON as text into a buffer that may be full. */
#pragma once

#include <jansson.h>
#include <stddef.h>

#include "base/buffer.h"

/* All of it, or nothing and -errno. `flags`: of json_dumps(). */
int json_text_append(const json_t *json, size_t flags, struct buffer *out);
/* The members of an object without its braces. 0 or -errno. */
int json_text_append_members(const json_t *object, struct buffer *out);
