/* Entries of `results` and of `files` (API.md "Running code"), as husk.h has them. */
#pragma once

#include "library/reading.h"

/* `list` may be NULL: none. */
const struct husk_output *entries_outputs(struct reading *reading, const json_t *list,
                                          size_t *ret_count);
const struct husk_file *entries_files(struct reading *reading, const json_t *list,
                                      size_t *ret_count);
/* One of them; also of an event, which is an entry itself. */
void entries_file(struct reading *reading, const json_t *entry, struct husk_file *ret);
