/* What callers are told of packages: of an install, of one, of all. */
#pragma once

#include <jansson.h>

struct install_result;
struct sandbox;

/* The answer of an install. New reference. */
json_t *package_result_json(const struct install_result *result);
/* What there is to say about one. `name`: normal (requirement.h); `list`: what is installed, as of packages_read(); NULL: not asked
 * for yet. New reference; NULL: the list is needed. */
json_t *package_state_json(const struct sandbox *sandbox, const char *name, const json_t *list);
/* The same list, by name. New reference. */
json_t *package_list_sorted(json_t *list);
