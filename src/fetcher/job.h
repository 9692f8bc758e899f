/* One job: from requirements to wheels in the cache. The steps:
 *   resolve (uv, against the index; if that cannot be reached, against what it remembers) → what is missing → download (curl)
 *   → check → keep.
 * Only ever text of ours goes to the programs: requirements that huskd has checked, in a file. */
#pragma once

#include <jansson.h>

#include "base/buffer.h"
#include "base/failure.h"

/* {"packages": […], "offline": bool} as FETCH_DONE has it, or NULL and why in `errors`, for people. `tell` gets lines as it goes. */
/* Keep the cache small; after the answer, so that nobody waits for it. */
void job_clean_up(const json_t *order);
json_t *job_run(const json_t *order, void (*tell)(const char *line), struct buffer *errors);
