/* JSON that clients send: parsing it, and reading known fields with a sentence for what is wrong. An absent field and null
 * are the same: *value stays as it is. All functions return false with *problem filled in. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct problem;

/* Before parsing, because jansson goes 2048 levels deep, recursively, and needs many times the memory of the text. Why it
 * will not be parsed, or NULL. Text that is no JSON may pass. */
const char *json_body_excess(const char *text, size_t length);

/* An object (new reference), {} for an empty body. Numbers are all reals. */
bool json_body_parse(const char *text, size_t length, json_t **ret, struct problem *problem);

struct number_range {
    double minimum, maximum;
};
bool json_body_text(const json_t *body, const char *key, const char **value, size_t *length,
                    struct problem *problem);
bool json_body_real(const json_t *body, const char *key, struct number_range range, double *value,
                    struct problem *problem);
bool json_body_whole(const json_t *body, const char *key, struct number_range range,
                     uint64_t *value, struct problem *problem);
bool json_body_flag(const json_t *body, const char *key, bool *value, struct problem *problem);
/* The value as it is, borrowed; NULL: absent, or null. */
json_t *json_body_value(const json_t *body, const char *key);
