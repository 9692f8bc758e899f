/* Base64 (RFC 4648) as kernels send it: line breaks anywhere, padding or not. Pure. */
#pragma once

#include <stddef.h>

/* How many bytes `length` characters can become at most. */
size_t base64_room(size_t length);
/* Decode into `out`, which has base64_room() bytes. 0, or -EINVAL: it is something else. */
int base64_decode(const char *text, size_t length, char *out, size_t *ret_length);
