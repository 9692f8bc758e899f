/* What `create` shares with `install`. */
#pragma once

#include <jansson.h>

struct install_result;

/* The answer of an install. New reference. */
json_t *package_result_json(const struct install_result *result);
