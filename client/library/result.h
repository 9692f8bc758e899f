/* struct husk_result: of an answer that came whole, of what there is so far, or of the last event of a stream. */
#pragma once

#include "library/answers.h"

extern const struct answer_shape result_whole;   /* stdout and stderr must be there */
extern const struct answer_shape result_fetched; /* of something detached, perhaps not over */

/* The summary at the end of a stream. */
void result_read_summary(struct reading *reading, const json_t *json, const char *text,
                         struct husk_result *ret);
