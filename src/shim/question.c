#include "shim/question.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/text.h"
#include "husk/limits.h"
#include "shim/json_text.h"
#include "shim/plain_text.h"

static bool is_text(const json_t *value, const char *text)
{
    const char *given = json_string_value(value);
    return given && strcmp(given, text) == 0;
}

/* What can be passed on of "metadata": an object, or nothing. A new reference. */
static json_t *metadata_of(const json_t *content)
{
    json_t *metadata = json_object_get(content, "metadata");
    bool good = json_is_object(metadata) &&
                json_dumpb(metadata, NULL, 0, JSON_COMPACT) <= MAX_QUESTION_METADATA_BYTES;
    return good ? json_incref(metadata) : json_object();
}

/* --- completion ------------------------------------------------------------------------------- */

/* Those within the limits; a new reference. */
static json_t *matches_of(json_t *given, bool *ret_truncated)
{
    json_t *matches = json_array();
    size_t i;
    json_t *match;
    json_array_foreach(given, i, match)
    {
        if (json_is_string(match) && json_string_length(match) <= MAX_MATCH_BYTES &&
            json_array_size(matches) < MAX_MATCHES)
            (void)json_array_append(matches, match);
        else
            *ret_truncated = true;
    }
    return matches;
}

/* Metadata tell of all matches, so they go when some of these do. */
static json_t *completion(const struct question *question, const json_t *content)
{
    json_t *matches = json_object_get(content, "matches");
    const json_t *first = json_object_get(content, "cursor_start");
    const json_t *last = json_object_get(content, "cursor_end");
    json_int_t start = json_integer_value(first), end = json_integer_value(last);
    if (!json_is_array(matches) || !json_is_integer(first) || !json_is_integer(last) || start < 0 ||
        start > end || end > question->length)
        return NULL;
    bool truncated = false;
    json_t *kept = matches_of(matches, &truncated);
    return json_pack("{s:o, s:I, s:I, s:o, s:s, s:b}", "matches", kept, "cursor_start", start,
                     "cursor_end", end, "metadata",
                     truncated ? json_object() : metadata_of(content), "status", "ok", "truncated",
                     truncated);
}

/* --- inspection ------------------------------------------------------------------------------- */

/* A new reference. */
static json_t *text_about(const struct question *question, const json_t *value, bool *ret_truncated)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value);
    size_t kept = utf8_cut(text, length, MAX_INSPECTION_BYTES);
    *ret_truncated |= kept < length;
    if (question->colours)
        return json_stringn(text, kept);
    _cleanup_free_ char *plain = malloc(kept + 1);
    return plain ? json_stringn(plain, plain_text_strip(text, kept, plain)) : NULL;
}

static json_t *inspection(const struct question *question, const json_t *content)
{
    const json_t *found = json_object_get(content, "found");
    json_t *given = json_object_get(content, "data");
    if (!json_is_boolean(found) || !json_is_object(given))
        return NULL;
    bool truncated = false;
    json_t *data = json_object();
    const char *type;
    json_t *value;
    json_object_foreach(given, type, value)
    {
        if (!json_is_string(value) || strlen(type) > MAX_MATCH_BYTES)
            truncated = true;
        else
            (void)json_object_set_new(data, type, text_about(question, value, &truncated));
    }
    return json_pack("{s:b, s:o, s:o, s:s, s:b}", "found", json_is_true(found), "data", data,
                     "metadata", metadata_of(content), "status", "ok", "truncated", truncated);
}

/* --- is this all? ------------------------------------------------------------------------------ */

static json_t *completeness(const struct question *question _unused_, const json_t *content)
{
    static const char *const states[] = {"complete", "incomplete", "invalid", "unknown"};
    const json_t *status = json_object_get(content, "status");
    const json_t *indent = json_object_get(content, "indent");
    for (size_t i = 0; i < ARRAY_LENGTH(states); i++) {
        if (is_text(status, states[i]))
            return json_pack("{s:s, s:s}", "status", states[i], "indent",
                             json_is_string(indent) && json_string_length(indent) <= MAX_MATCH_BYTES
                                 ? json_string_value(indent)
                                 : "");
    }
    return NULL;
}

/* --- all of them ------------------------------------------------------------------------------- */

static const struct {
    const char *request_type;
    const char *reply_type;
    bool has_cursor;
    /* The answer as a new reference; NULL: this is none. */
    json_t *(*answer)(const struct question *question, const json_t *content);
} kinds[] = {
    [QUESTION_COMPLETE] = {"complete_request", "complete_reply", true, completion},
    [QUESTION_INSPECT] = {"inspect_request", "inspect_reply", true, inspection},
    [QUESTION_IS_COMPLETE] = {"is_complete_request", "is_complete_reply", false, completeness},
};

int question_read(const json_t *body, struct question *ret)
{
    const json_t *code = json_object_get(body, "code");
    json_int_t kind = json_integer_value(json_object_get(body, "kind"));
    struct question question = {
        .kind = (enum question_kind)kind,
        .cursor = json_integer_value(json_object_get(body, "cursor")),
        .detail = json_integer_value(json_object_get(body, "detail")) == 1,
        .colours = json_is_true(json_object_get(body, "colors")),
    };
    if (kind < 0 || kind >= (json_int_t)ARRAY_LENGTH(kinds) || !json_is_string(code) ||
        json_string_length(code) > MAX_CODE_BYTES)
        return -EINVAL;
    question.length = (json_int_t)utf8_count(json_string_value(code), json_string_length(code));
    if (question.cursor < 0 || question.cursor > question.length)
        return -EINVAL;
    *ret = question;
    return 0;
}

const char *question_request_type(const struct question *question)
{
    return kinds[question->kind].request_type;
}

const char *question_reply_type(const struct question *question)
{
    return kinds[question->kind].reply_type;
}

json_t *question_request(const struct question *question, json_t *code)
{
    json_t *request = json_pack("{s:O}", "code", code);
    if (kinds[question->kind].has_cursor)
        (void)json_object_set_new(request, "cursor_pos", json_integer(question->cursor));
    if (question->kind == QUESTION_INSPECT)
        (void)json_object_set_new(request, "detail_level", json_integer(question->detail));
    return request;
}

int question_answer(const struct question *question, const json_t *content, struct buffer *out)
{
    if (question->kind != QUESTION_IS_COMPLETE &&
        !is_text(json_object_get(content, "status"), "ok"))
        return -EBADMSG;
    json_auto_t *answer = kinds[question->kind].answer(question, content);
    return answer ? json_text_append(answer, JSON_COMPACT, out) : -EBADMSG;
}
