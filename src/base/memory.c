#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"

void *must_alloc(size_t size)
{
    void *memory = calloc(1, size);
    husk_assert(memory != NULL);
    return memory;
}

char *must_copy(const char *text)
{
    char *copy = strdup(text);
    husk_assert(copy != NULL);
    return copy;
}

char *must_format(const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    husk_assert(length >= 0);
    return text;
}
