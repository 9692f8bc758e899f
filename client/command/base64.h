/* Base64 (RFC 4648), as headers of MCP and terminals want it. */
#pragma once

#include <stddef.h>

/* For free(); NULL: no memory. With a NUL behind it, which `ret_length` (NULL: unwanted) does not count. */
char *base64_encode(const void *data, size_t length, size_t *ret_length);
