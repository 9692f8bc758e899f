#include "shim/kept_results.h"

#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/memory.h"
#include "base/text.h"
#include "husk/limits.h"

struct kept_result {
    char id[ID_TEXT_SIZE];
    json_t *note; /* NULL: none */
    struct buffer payload;
};

struct kept_results {
    struct kept_result kept[MAX_KEPT_RESULTS]; /* the oldest first */
    size_t count;
    size_t bytes;
};

struct kept_results *kept_results_new(void)
{
    return must_alloc(sizeof(struct kept_results));
}

static void forget_oldest(struct kept_results *results)
{
    results->bytes -= results->kept[0].payload.length;
    buffer_free(&results->kept[0].payload);
    json_decref(results->kept[0].note);
    results->count--;
    memmove(results->kept, results->kept + 1, results->count * sizeof results->kept[0]);
}

struct kept_results *kept_results_free(struct kept_results *results)
{
    if (!results)
        return NULL;
    while (results->count > 0)
        forget_oldest(results);
    free(results);
    return NULL;
}

void kept_results_add(struct kept_results *results, const char *execution_id, json_t *note,
                      struct buffer *payload)
{
    while (results->count == MAX_KEPT_RESULTS ||
           (results->count > 0 && results->bytes + payload->length > MAX_KEPT_BYTES))
        forget_oldest(results);
    struct kept_result *kept = &results->kept[results->count++];
    *kept = (struct kept_result){.note = note, .payload = *payload};
    (void)format_text(kept->id, sizeof kept->id, "%s", execution_id);
    results->bytes += payload->length;
    *payload = (struct buffer){0};
}

const struct buffer *kept_results_find(const struct kept_results *results, const char *execution_id)
{
    for (size_t i = 0; i < results->count; i++) {
        if (strcmp(results->kept[i].id, execution_id) == 0)
            return &results->kept[i].payload;
    }
    return NULL;
}

json_t *kept_results_notes(const struct kept_results *results)
{
    json_t *notes = json_array();
    for (size_t i = 0; i < results->count; i++) {
        if (results->kept[i].note)
            (void)json_array_append(notes, results->kept[i].note);
    }
    return notes;
}
