/* Text checks and number parsing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool utf8_valid(const char *data, size_t length);
/* How many leading bytes are well-formed characters. */
size_t utf8_prefix(const char *data, size_t length);
/* How many characters (code points) well-formed text has. */
size_t utf8_count(const char *data, size_t length);
/* How many leading bytes of `data` are whole characters, at most `limit`: never cuts a character in
 * two. */
size_t utf8_cut(const char *data, size_t length, size_t limit);

/* Whole string must be a decimal number within [minimum, maximum]. 0 or -EINVAL / -ERANGE. */
int parse_u64(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *ret);
int parse_double(const char *text, double minimum, double maximum, double *ret);
int parse_bool(const char *text, bool *ret); /* yes/no, true/false, on/off, 1/0 */

bool starts_with(const char *text, const char *prefix);
bool same_ignoring_case(const char *a, const char *b);
/* snprintf that says when it did not fit: 0 or -ENAMETOOLONG. */
int format_text(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
