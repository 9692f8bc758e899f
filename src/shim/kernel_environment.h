/* The environment of a kernel, or of a command, beyond the image's. */
#pragma once

#include <jansson.h>

#include "base/buffer.h"
#include "base/failure.h"

/* Fill `out` with "KEY=value" texts, each with its NUL: as many threads for computing as are worth having, as libraries would count
 * the cores of the machine; then `environment`, an object of strings (NULL ok). 0 or -EINVAL. */
int kernel_environment_set(struct buffer *out, const json_t *environment, unsigned threads,
                           struct failure *why);
/* Append the entries of `environment` (NULL ok), bounded in number and size. 0 or -EINVAL. */
int environment_append(struct buffer *out, const json_t *environment, struct failure *why);
