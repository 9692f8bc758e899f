/* UTF-8 and wide characters, which the editor counts in. The locale must be one of UTF-8, as main() makes it. */
#pragma once

#include <stddef.h>
#include <wchar.h>

/* For free(). NULL: no memory. What is not UTF-8 becomes U+FFFD; what cannot be written is left out. */
wchar_t *wide_of(const char *text);
char *narrow_of(const wchar_t *text);
/* How many columns of a terminal a text takes; characters without a width take none. */
size_t wide_columns(const wchar_t *text);
/* The first `length` characters, for free(). NULL: no memory. */
wchar_t *wide_piece(const wchar_t *text, size_t length);
