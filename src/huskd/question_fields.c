#include "huskd/question_fields.h"

#include "base/text.h"
#include "husk/limits.h"
#include "huskd/json_body.h"
#include "huskd/problem.h"

bool question_fields_read(const json_t *body, struct question_fields *ret, struct problem *problem)
{
    ret->code = NULL;
    if (!json_body_text(body, "code", &ret->code, &ret->code_length, problem))
        return false;
    if (!ret->code) {
        problem_set(problem, PROBLEM_INVALID_FIELD,
                    "code is missing: the code that the question is about.");
        return false;
    }
    if (ret->code_length > MAX_CODE_BYTES) {
        problem_set(problem, PROBLEM_BODY_TOO_LARGE,
                    "The code has %zu bytes; at most %d are taken.", ret->code_length,
                    MAX_CODE_BYTES);
        return false;
    }
    ret->cursor = utf8_count(ret->code, ret->code_length);
    ret->detail = 0;
    if (ret->kind == QUESTION_IS_COMPLETE)
        return true;
    if (!json_body_whole(body, "cursor", (struct number_range){0, (double)ret->cursor},
                         &ret->cursor, problem))
        return false;
    return ret->kind == QUESTION_COMPLETE ||
           (json_body_whole(body, "detail", (struct number_range){0, 1}, &ret->detail, problem) &&
            json_body_flag(body, "colors", &ret->colours, problem));
}

char *question_fields_message(const struct question_fields *fields)
{
    json_auto_t *message =
        json_pack("{s:i, s:s%, s:I, s:I, s:b}", "kind", (int)fields->kind, "code", fields->code,
                  fields->code_length, "cursor", (json_int_t)fields->cursor, "detail",
                  (json_int_t)fields->detail, "colors", fields->colours);
    return message ? json_dumps(message, JSON_COMPACT) : NULL;
}
