/* Reading the JSON of an answer into a gift. Whoever sent it may be anybody: a field of the wrong type makes the whole
 * reading fail, with a sentence that names it, and the first failure stays. So callers read field after field and look at
 * `result` once. What has failed reads as "", 0 and NULL. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "husk.h"

struct reading {
    void *gift; /* what is read lives as long as it */
    struct husk_error *error;
    int http_status;
    int result; /* 0, or minus an enum husk_error_kind */
};

/* Parse JSON, bounded (CLIENT_JSON_VALUES); strings may hold NUL. `text` must be the gift's or outlive it, if `json` of
 * the result points to it; the tree becomes the gift's. NULL: it failed. */
json_t *reading_parse(struct reading *reading, const char *text, size_t length);

/* Fail: `what` is a sentence's subject, "the field stdout". Returns the result. */
int reading_fail(struct reading *reading, const char *what, const char *fault);
int reading_fail_memory(struct reading *reading);
/* It must be an object; `what` for the sentence. */
bool reading_is_object(struct reading *reading, const json_t *json, const char *what);

/* Absent and null are the same. A NUL within becomes U+FFFD, since a C string cannot hold it. */
const char *reading_text(struct reading *reading, const json_t *object, const char *key,
                         const char *absent);
const char *reading_required_text(struct reading *reading, const json_t *object, const char *key);
/* The text as it is; "" if absent. */
struct husk_text reading_bytes(struct reading *reading, const json_t *object, const char *key);
struct husk_text reading_required_bytes(struct reading *reading, const json_t *object,
                                        const char *key);
uint64_t reading_number(struct reading *reading, const json_t *object, const char *key);
/* The same within int; `absent` if it is not there. */
int reading_int(struct reading *reading, const json_t *object, const char *key, int absent);
double reading_real(struct reading *reading, const json_t *object, const char *key);
bool reading_flag(struct reading *reading, const json_t *object, const char *key);
/* Borrowed. NULL: absent, or not of that type. */
json_t *reading_list(struct reading *reading, const json_t *object, const char *key);
json_t *reading_object(struct reading *reading, const json_t *object, const char *key);

/* `count` zeroed structures of `size` bytes; never NULL but when the reading has failed. */
void *reading_array(struct reading *reading, size_t count, size_t size);
/* The value as JSON text. */
struct husk_text reading_dump(struct reading *reading, const json_t *json);
