#include "base/buffer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALLEST_CAPACITY = 256
};

/* One byte more than asked for is always there, for the NUL of buffer_text(). */
static int ensure(struct buffer *buffer, size_t more)
{
    size_t wanted;
    if (__builtin_add_overflow(buffer->length, more, &wanted))
        return -ENOMEM;
    if (buffer->limit && wanted > buffer->limit)
        return -ENOSPC;
    if (wanted < buffer->capacity)
        return 0;
    size_t capacity = buffer->capacity ? buffer->capacity : SMALLEST_CAPACITY;
    while (capacity <= wanted) {
        if (__builtin_mul_overflow(capacity, (size_t)2, &capacity))
            return -ENOMEM;
    }
    char *data = realloc(buffer->data, capacity);
    if (!data)
        return -ENOMEM;
    buffer->data = data;
    buffer->capacity = capacity;
    return 0;
}

int buffer_append(struct buffer *buffer, const void *data, size_t length)
{
    if (length == 0)
        return 0;
    int r = ensure(buffer, length);
    if (r < 0)
        return r;
    memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
    return 0;
}

int buffer_append_text(struct buffer *buffer, const char *text)
{
    return buffer_append(buffer, text, strlen(text));
}

int buffer_printf(struct buffer *buffer, const char *format, ...)
{
    _cleanup_free_ char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) {
        text = NULL;
        return -ENOMEM;
    }
    return buffer_append(buffer, text, (size_t)length);
}

char *buffer_reserve(struct buffer *buffer, size_t length)
{
    if (ensure(buffer, length) < 0)
        return NULL;
    return buffer->data + buffer->length;
}

void buffer_grow(struct buffer *buffer, size_t length)
{
    buffer->length += length;
}

void buffer_consume(struct buffer *buffer, size_t length)
{
    if (length >= buffer->length) {
        buffer->length = 0;
        return;
    }
    memmove(buffer->data, buffer->data + length, buffer->length - length);
    buffer->length -= length;
}

const char *buffer_text(struct buffer *buffer)
{
    if (buffer->capacity == 0) {
        buffer->data = malloc(SMALLEST_CAPACITY);
        if (!buffer->data)
            return NULL;
        buffer->capacity = SMALLEST_CAPACITY;
    }
    buffer->data[buffer->length] = '\0';
    return buffer->data;
}

char *buffer_take(struct buffer *buffer)
{
    if (!buffer_text(buffer))
        return NULL;
    char *data = TAKE_POINTER(buffer->data);
    buffer->length = 0;
    buffer->capacity = 0;
    return data;
}

void buffer_clear(struct buffer *buffer)
{
    buffer->length = 0;
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    buffer->data = NULL;
    buffer->length = 0;
    buffer->capacity = 0;
}
