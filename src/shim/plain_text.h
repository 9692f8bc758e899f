/* Text without terminal escapes: what a traceback must be for anything that is no terminal. */
#pragma once

#include <stddef.h>

/* Copy `text` without ANSI escape sequences to `out`, which has room for `length` bytes. Returns
 * how many were written. UTF-8 stays UTF-8. */
size_t plain_text_strip(const char *text, size_t length, char *out);
