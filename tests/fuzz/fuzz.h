/* What the fuzz targets share. A target is one function that must come back whatever it is given: no crash, no leak, no endless loop,
 * and the `check()`s hold. The same file is linked twice: with libFuzzer (`make fuzz`), which looks for inputs that do
 * something new, and with replay.c (`make test`), which runs the corpus, also with each allocation failing in turn. */
#pragma once

#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/attributes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Of replay.c. Does an allocation fail in this run? Then a result may be missing, but nothing else may go wrong. The target's own
 * ones never do. */
extern bool memory_fails __attribute__((weak)), memory_is_our_own __attribute__((weak));
#define memory_is_short (&memory_fails && memory_fails)

#define check(condition)                                                                           \
    ((condition)                                                                                   \
         ? (void)0                                                                                 \
         : ((void)fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition),    \
            abort()))

_unused_ static void *own_memory(size_t size)
{
    if (&memory_is_our_own)
        memory_is_our_own = true;
    void *memory = calloc(1, size);
    check(memory);
    if (&memory_is_our_own)
        memory_is_our_own = false;
    return memory;
}

static char own_folder_path[64];

_unused_ static int remove_entry(const char *path, const struct stat *status _unused_,
                                 int type _unused_, struct FTW *where _unused_)
{
    return remove(path);
}

_unused_ static void remove_own_folder(void)
{
    (void)nftw(own_folder_path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* A folder that is removed at the end; a descriptor of it. */
_unused_ static int own_folder(void)
{
    (void)snprintf(own_folder_path, sizeof own_folder_path, "/tmp/husk-unit-fuzz-XXXXXX");
    check(mkdtemp(own_folder_path) && atexit(remove_own_folder) == 0);
    int folder = open(own_folder_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(folder >= 0);
    return folder;
}

/* The input, taken apart. */
struct input {
    const char *data;
    size_t left;
};

/* The next line, or all that is left, as a text of its own on the heap, so that a sanitizer sees whoever reads beyond it. */
_unused_ static char *next_line(struct input *input)
{
    const char *end = input->left ? memchr(input->data, '\n', input->left) : NULL;
    size_t length = end ? (size_t)(end - input->data) : input->left;
    char *line = own_memory(length + 1);
    if (length)
        memcpy(line, input->data, length);
    length += end ? 1 : 0;
    input->data += length;
    input->left -= length;
    return line;
}

/* The same, where an empty line stands for something that was not sent: NULL. */
_unused_ static char *next_header(struct input *input)
{
    char *line = next_line(input);
    if (*line)
        return line;
    free(line);
    return NULL;
}

_unused_ static unsigned next_byte(struct input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return (unsigned char)*input->data++;
}
