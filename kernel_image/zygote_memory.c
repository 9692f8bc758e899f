#include "zygote_memory.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    /* Of pymalloc: blocks of up to so many bytes, in steps, out of pools of this size. The first block of a pool follows its
     * header. */
    LARGEST_BLOCK = 512,
    BLOCK_STEP = 16,
    POOL_BYTES = 16 * 1024,
    POOL_HEADER_BYTES = 48,
    LARGEST_CHUNK = 120 * 1024, /* of malloc; larger ones are mappings of their own */
    FINE_CHUNK = 2048,          /* below this every size is tried */
    MAX_GAP_BYTES = 64 * 1024 * 1024,
};

static const uint64_t immortal = UINT32_MAX;

struct python_object {
    uint64_t references;
};

/* Of the interpreter that has loaded this. */
extern PyObject _Py_NoneStruct;
PyObject *PyList_New(ptrdiff_t length);
int PyList_Append(PyObject *list, PyObject *item);
ptrdiff_t PyList_Size(PyObject *list);
PyObject *PyList_GetItem(PyObject *list, ptrdiff_t index);
void *PyObject_Malloc(size_t size);
void PyObject_Free(void *block);
void Py_DecRef(PyObject *object);

__attribute__((visibility("default"))) PyObject *zygote_immortalise(PyObject *list)
{
    PyObject *fresh = PyList_New(0);
    if (!fresh || _Py_NoneStruct.references != immortal)
        return fresh;
    ptrdiff_t length = PyList_Size(list);
    for (ptrdiff_t i = 0; i < length; i++) {
        PyObject *object = PyList_GetItem(list, i);
        if ((int32_t)object->references < 0 || object == list)
            continue;
        object->references = immortal;
        if (PyList_Append(fresh, object) < 0) {
            Py_DecRef(fresh);
            return NULL;
        }
    }
    return fresh;
}

/* Until a block comes from a pool that had none. */
static void fill_pools(size_t size)
{
    for (size_t bytes = 0; bytes < MAX_GAP_BYTES; bytes += size) {
        void *block = PyObject_Malloc(size);
        if (!block)
            return;
        if ((uintptr_t)block % POOL_BYTES <= POOL_HEADER_BYTES) {
            PyObject_Free(block);
            return;
        }
    }
}

/* Until a chunk comes from behind all others. What it gets is never freed. */
static void fill_chunks(size_t size, const char *first, const char *top)
{
    for (size_t bytes = 0; bytes < MAX_GAP_BYTES; bytes += size) {
        char *chunk = malloc(size);
        if (!chunk || chunk < first || chunk >= top) {
            free(chunk);
            return;
        }
    }
}

__attribute__((visibility("default"))) void zygote_close_gaps(void)
{
    for (size_t size = BLOCK_STEP; size <= LARGEST_BLOCK; size += BLOCK_STEP)
        fill_pools(size);
    struct mallinfo2 heap = mallinfo2();
    const char *end = sbrk(0), *top = end - heap.keepcost, *first = end - heap.arena;
    size_t size = LARGEST_CHUNK;
    while (size > BLOCK_STEP) {
        fill_chunks(size, first, top);
        size -= size > FINE_CHUNK ? size / 8 : BLOCK_STEP;
    }
    (void)malloc_trim(0);
}
