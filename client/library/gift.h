/* What callers are given: a structure of husk.h together with all that it points to, freed in one go. Everything here is
 * found again by the pointer to that structure, the content; so the free functions of husk.h need nothing else. */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* A zeroed structure of `size` bytes. NULL: no memory. */
void *gift_new(size_t size);
void *gift_free(void *content); /* NULL ok, returns NULL */

/* Zeroed memory that lives as long as the gift. NULL: no memory. */
void *gift_add(void *content, size_t size);
/* Take over what malloc() gave; it is freed at once when there is no memory to remember it. Returns it, or NULL (also for
 * NULL). */
void *gift_take(void *content, void *memory);
/* Take over a reference: texts of the structure may point into it. 0 or -ENOMEM. */
int gift_take_json(void *content, json_t *json);
