/* Text of this machine that is sent: code, requirements, standard input. */
#pragma once

#include <stddef.h>

#include "base/buffer.h"
#include "base/failure.h"

/* A whole file, or standard input ("-"), of at most `limit` bytes. */
int source_read(const char *path, size_t limit, struct buffer *ret, struct failure *why);
