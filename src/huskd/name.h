/* Names that users give to sandboxes. They stand where an id may stand, so a name must not look
 * like one. */
#pragma once

#include <stddef.h>

/* NULL if `text` can be a name (NUL-terminated; `length` shows NULs inside), else the end of a sentence that begins with "name ": "must …". */
const char *name_fault(const char *text, size_t length);
