#include "huskd/json_body.h"

#include "husk/limits.h"
#include "huskd/problem.h"

const char *json_body_excess(const char *text, size_t length)
{
    size_t depth = 0;
    size_t values = 1;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && (c == '{' || c == '['))
            depth++;
        else if (!quoted && (c == '}' || c == ']') && depth > 0)
            depth--;
        values += !quoted && (c == ',' || c == '{' || c == '[');
        if (depth > MAX_JSON_DEPTH)
            return "The JSON is nested too deeply.";
        if (values > MAX_REQUEST_VALUES)
            return "The JSON has too many values.";
    }
    return NULL;
}

bool json_body_parse(const char *text, size_t length, json_t **ret, struct problem *problem)
{
    json_error_t error;
    if (length == 0) {
        *ret = json_object();
        return true;
    }
    const char *fault = json_body_excess(text, length);
    if (fault) {
        problem_set(problem, PROBLEM_MALFORMED_JSON, "%s", fault);
        return false;
    }
    /* As reals, an integer of any size is a number that is out of range and not a syntax error. */
    json_t *json = json_loadb(text, length,
                              JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    if (!json) {
        problem_set(problem, PROBLEM_MALFORMED_JSON,
                    "The body is not valid JSON: line %d, column %d: %s.", error.line, error.column,
                    error.text);
        return false;
    }
    if (!json_is_object(json)) {
        json_decref(json);
        problem_set(problem, PROBLEM_INVALID_FIELD, "The body must be a JSON object: {…}.");
        return false;
    }
    *ret = json;
    return true;
}

json_t *json_body_value(const json_t *body, const char *key)
{
    json_t *value = json_object_get(body, key);
    return json_is_null(value) ? NULL : value;
}

bool json_body_flag(const json_t *body, const char *key, bool *value, struct problem *problem)
{
    const json_t *given = json_body_value(body, key);
    if (given && !json_is_boolean(given)) {
        problem_set(problem, PROBLEM_INVALID_FIELD, "%s must be true or false.", key);
        return false;
    }
    *value = given ? json_is_true(given) : *value;
    return true;
}

bool json_body_text(const json_t *body, const char *key, const char **value, size_t *length,
                    struct problem *problem)
{
    const json_t *given = json_body_value(body, key);
    if (!given)
        return true;
    if (!json_is_string(given)) {
        problem_set(problem, PROBLEM_INVALID_FIELD, "%s must be a string.", key);
        return false;
    }
    *value = json_string_value(given);
    *length = json_string_length(given);
    return true;
}

bool json_body_real(const json_t *body, const char *key, struct number_range range, double *value,
                    struct problem *problem)
{
    const json_t *given = json_body_value(body, key);
    if (!given)
        return true;
    double number = json_number_value(given);
    if (!json_is_number(given) || !(number >= range.minimum && number <= range.maximum)) {
        problem_set(problem, PROBLEM_INVALID_FIELD, "%s must be a number from %g to %.12g.", key,
                    range.minimum, range.maximum);
        return false;
    }
    *value = number;
    return true;
}

bool json_body_whole(const json_t *body, const char *key, struct number_range range,
                     uint64_t *value, struct problem *problem)
{
    const json_t *given = json_body_value(body, key);
    if (!given)
        return true;
    double number = json_number_value(given);
    if (!json_is_number(given) || !(number >= range.minimum && number <= range.maximum) ||
        (double)(uint64_t)number != number) {
        problem_set(problem, PROBLEM_INVALID_FIELD,
                    "%s must be a whole number from %.12g to %.12g.", key, range.minimum,
                    range.maximum);
        return false;
    }
    *value = (uint64_t)number;
    return true;
}
