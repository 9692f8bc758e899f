/* jansson's memory. When an allocation fails while it reads a string (2.14, lex_save()), jansson goes on without the
 * characters that did not fit and then copies up to a quote that is not there: beyond both buffers. What it reads is written by strangers, and
 * the shim's memory is limited, so they could bring that about. A program that ends is the lesser evil: sandboxes outlive
 * huskd, and a shim that is out of memory is its sandbox's own doing. */
#pragma once

#include <jansson.h>
#include <stdlib.h>

#include "base/failure.h"

static inline void *json_memory(size_t size)
{
    void *memory = malloc(size);
    husk_assert(memory || size == 0);
    return memory;
}

/* Before the first JSON, in each program that reads any. */
static inline void json_memory_setup(void)
{
    json_set_alloc_funcs(json_memory, free);
}
