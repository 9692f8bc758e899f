/* Runs the corpus of a fuzz target: each input as it is, then again and again with the first, the second, … allocation failing,
 * until one run needs no more. Linked with --wrap for the allocators. Small allocations of fixed size (base/memory.h) and those of
 * jansson (base/json_memory.h) end the program by design and never fail here. */
#include "fuzz.h"

#include <dirent.h>

enum {
    MOST_BYTES = 1024 * 1024,
    MOST_FAILURES = 20000 /* an input that needs more allocations is not for this */
};

bool memory_fails, memory_is_our_own;
static long countdown; /* to the allocation that fails */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_must_alloc(size_t size);

static bool fails_now(void)
{
    return memory_fails && !memory_is_our_own && --countdown == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return fails_now() ? NULL : __real_realloc(memory, size);
}

void *__wrap_must_alloc(size_t size)
{
    return __real_calloc(1, size);
}

static void run(const uint8_t *data, size_t size)
{
    memory_fails = false;
    (void)LLVMFuzzerTestOneInput(data, size);
    memory_fails = true;
    for (long nth = 1; nth <= MOST_FAILURES; nth++) {
        countdown = nth;
        (void)LLVMFuzzerTestOneInput(data, size);
        if (countdown > 0)
            break;
    }
    memory_fails = false;
}

static void run_file(const char *folder, const char *name)
{
    static uint8_t data[MOST_BYTES];
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    check(file);
    size_t size = fread(data, 1, sizeof data, file);
    (void)fclose(file);
    /* On the heap, so that a sanitizer sees whoever reads beyond it. */
    uint8_t *copy = own_memory(size ? size : 1);
    memcpy(copy, data, size);
    (void)fprintf(stderr, "[ RUN      ] %s\n", path);
    run(copy, size);
    (void)printf("[       OK ] %s\n", path);
    (void)fflush(stdout);
    free(copy);
}

int main(int argc, char **argv)
{
    const char *name = strrchr(argv[0], '/');
    char folder[256];
    name = strstr(name ? name : argv[0], "fuzz_");
    (void)snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", name ? name + 5 : "");
    DIR *listing = opendir(argc > 1 ? argv[1] : folder);
    check(listing);
    unsigned count = 0;
    for (struct dirent *entry; (entry = readdir(listing));) {
        if (entry->d_name[0] == '.')
            continue;
        run_file(argc > 1 ? argv[1] : folder, entry->d_name);
        count++;
    }
    closedir(listing);
    check(count > 0);
    return 0;
}
