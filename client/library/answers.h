/* From an exchange to what a caller gets: the answer's JSON, read by one function into a new structure of husk.h. */
#pragma once

#include "library/exchange.h"
#include "library/reading.h"

/* Read `json` into `content` (the gift's structure, zeroed). `text` is the JSON as it came, for the field `json`. */
typedef void (*answer_reader)(struct reading *reading, const json_t *json, const char *text,
                              void *content);

struct answer_shape {
    size_t size; /* of the structure */
    answer_reader read;
};

/* Run it and read the answer. 0, and *ret is a gift; or why not. */
int answers_get(struct husk *husk, const struct exchange *exchange,
                const struct answer_shape *shape, void **ret, struct husk_error *error);
/* The same for one that is there already; takes its body. */
int answers_read(struct answer *answer, const struct answer_shape *shape, void **ret,
                 struct husk_error *error);
/* The id that a detached call is answered with, under `key`. */
int answers_id(struct husk *husk, const struct exchange *exchange, const char *key,
               char ret[HUSK_ID_SIZE], struct husk_error *error);
