/* Text of request targets. */
#pragma once

#include <stddef.h>

/* Percent-decode, once. Returns the length of the NUL-terminated result; -EINVAL when it is not well-formed, not UTF-8, or
 * holds a NUL; -ENAMETOOLONG. */
int uri_decode(const char *text, size_t length, char *out, size_t size);
/* Value of `key` in a query ("a=1&b=2"; NULL: there is none), decoded, '+' as a space. 1: found, 0: not there, or -errno as above. */
int uri_query(const char *query, const char *key, char *out, size_t size);
