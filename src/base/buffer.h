/* A growing byte buffer with a hard limit. Owns its bytes; zero-initialise or BUFFER_LIMITED().
 * Appending past the limit or out of memory returns -ENOSPC / -ENOMEM and changes nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"

struct buffer {
    char *data; /* NULL while empty; not NUL-terminated unless buffer_text() was called */
    size_t length;
    size_t capacity;
    size_t limit; /* 0: no limit */
};

#define BUFFER_LIMITED(bytes) ((struct buffer){.limit = (bytes)})
#define _cleanup_buffer_      _cleanup_(buffer_free)

int buffer_append(struct buffer *buffer, const void *data, size_t length);
int buffer_append_text(struct buffer *buffer, const char *text);
int buffer_printf(struct buffer *buffer, const char *format, ...) _printf_(2, 3);
/* Make room for `length` more bytes and return where they go; buffer_grow() then counts them. NULL:
 * no room. */
char *buffer_reserve(struct buffer *buffer, size_t length);
void buffer_grow(struct buffer *buffer, size_t length);
/* Remove bytes from the front. */
void buffer_consume(struct buffer *buffer, size_t length);
/* The content with a NUL behind it (not counted). NULL when memory is out. */
const char *buffer_text(struct buffer *buffer);
/* Give the bytes away (NUL-terminated, free()); the buffer is empty afterwards. NULL when memory is
 * out. */
char *buffer_take(struct buffer *buffer);
void buffer_clear(struct buffer *buffer); /* keeps the allocation */
void buffer_free(struct buffer *buffer);
