/* A sandbox as clients see it. */
#pragma once

#include <jansson.h>

struct sandbox;
struct sandbox_usage;

/* New reference, NULL when memory is out. `usage` NULL: not known now. */
json_t *sandbox_json(const struct sandbox *sandbox, const struct sandbox_usage *usage);
