/* A sandbox as clients see it. */
#pragma once

#include <jansson.h>

struct caller;
struct sandbox;
struct sandbox_usage;

/* New reference, NULL when memory is out. `usage` NULL: not known now. A `reader` who is an admin is told whose it is. */
json_t *sandbox_json(const struct sandbox *sandbox, const struct sandbox_usage *usage,
                     const struct caller *reader);
