/* What somebody may have meant who mistyped a word. */
#pragma once

#include <stddef.h>

/* The word nearest to `text`: at most two letters wrong, missing, too many or exchanged, and less than half of it; or the only one
 * that begins with it. NULL: none is. `words` ends with NULL; the result is one of them. */
const char *nearest_word(const char *text, const char *const *words);
