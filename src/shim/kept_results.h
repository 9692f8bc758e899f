/* Results of detached executions, or commands (payloads of SHIM_RESULT), until the sandbox ends; when there are too many the oldest are
 * forgotten. A new huskd finds them. */
#pragma once

#include <jansson.h>

#include "base/buffer.h"

struct kept_results;

struct kept_results *kept_results_new(void);
struct kept_results *kept_results_free(struct kept_results *results); /* NULL ok, returns NULL */

/* Takes the bytes of `payload`, which is empty afterwards, and steals `note`: something to list it by; NULL ok. */
void kept_results_add(struct kept_results *results, const char *execution_id, json_t *note,
                      struct buffer *payload);
/* NULL: there is none of that id, or it was forgotten. Borrowed until the next add. */
const struct buffer *kept_results_find(const struct kept_results *results,
                                       const char *execution_id);
/* The notes, the oldest first: a new array. */
json_t *kept_results_notes(const struct kept_results *results);
