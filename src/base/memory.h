/* Small allocations of fixed size abort when memory is out (see style: what is sized by a request
 * uses malloc and returns -ENOMEM instead). */
#pragma once

#include <stddef.h>

void *must_alloc(size_t size); /* zeroed */
char *must_copy(const char *text);
char *must_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
