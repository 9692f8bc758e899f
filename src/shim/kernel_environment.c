#include "shim/kernel_environment.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "husk/limits.h"

static int append_entry(struct buffer *out, const char *name, const char *value)
{
    int r = buffer_append_text(out, name);
    if (r == 0)
        r = buffer_append(out, "=", 1);
    return r == 0 ? buffer_append(out, value, strlen(value) + 1) : r;
}

static bool usable(const char *name, const json_t *value)
{
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) && *name && !strchr(name, '=');
}

int environment_append(struct buffer *out, const json_t *environment, struct failure *why)
{
    size_t limit = out->length + MAX_ENV_BYTES;
    if (json_object_size(environment) > MAX_ENV_ENTRIES)
        return fail_plain(why, EINVAL, "the environment has more than %d entries", MAX_ENV_ENTRIES);
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)environment, name, value)
    {
        if (!usable(name, value))
            return fail_plain(why, EINVAL, "the environment variable '%.64s' is not usable", name);
        if (append_entry(out, name, json_string_value(value)) < 0 || out->length > limit)
            return fail_plain(why, EINVAL, "the environment has more than %d bytes", MAX_ENV_BYTES);
    }
    return 0;
}

int kernel_environment_set(struct buffer *out, const json_t *environment, unsigned threads,
                           struct failure *why)
{
    static const char *const thread_counts[] = {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"};
    char count[12];
    (void)snprintf(count, sizeof count, "%u", threads);
    buffer_clear(out);
    int r = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(thread_counts) && r == 0; i++)
        r = append_entry(out, thread_counts[i], count);
    return r < 0 ? fail(why, r, "environment") : environment_append(out, environment, why);
}
