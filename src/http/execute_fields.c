#include "http/execute_fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "http/request.h"
#include "huskd/config.h"
#include "huskd/create_fields.h"
#include "huskd/json_body.h"
#include "huskd/problem.h"
#include "huskd/sandbox.h"
#include "huskd/service.h"
#include "huskd/stdin_lines.h"
#include "huskd/uri.h"

/* --- the query ---------------------------------------------------------------------------------- */

static bool query_number(const struct request *request, struct number_range range, double *value,
                         struct problem *problem)
{
    char text[32];
    int r = uri_query(request->query, "timeout", text, sizeof text);
    if (r == 0)
        return true;
    if (r > 0)
        r = parse_double(text, range.minimum, range.maximum, value);
    if (r < 0)
        problem_set(problem, PROBLEM_INVALID_FIELD, "timeout must be a number from %g to %g.",
                    range.minimum, range.maximum);
    return r >= 0;
}

/* --- stdin -------------------------------------------------------------------------------------- */

static bool read_input(const json_t *body, struct execute_fields *fields, struct problem *problem)
{
    json_t *given = json_body_value(body, "stdin");
    const char *text = json_string_value(given);
    if (!given)
        return true;
    bool asks = text && fields->stream && !strcmp(text, "ask");
    fields->input = asks ? json_incref(given) : stdin_lines(given);
    if (fields->input)
        return true;
    problem_set(problem, PROBLEM_INVALID_FIELD,
                "stdin must be a string or a list of strings, of at most %d bytes and %d lines.",
                MAX_STDIN_BYTES, MAX_STDIN_LINES);
    return false;
}

bool input_field_read(const json_t *body, json_t **ret, struct problem *problem)
{
    bool end = false;
    if (!json_body_flag(body, "eof", &end, problem))
        return false;
    json_t *value = json_object_get(body, "value");
    *ret = json_is_string(value) && !end ? value : NULL;
    if (end || json_is_null(value) || (*ret && json_string_length(value) <= MAX_STDIN_BYTES))
        return true;
    problem_set(problem, PROBLEM_INVALID_FIELD,
                "value must be the line that input() returns, a string of at most %d bytes, or "
                "null for the "
                "end of input.",
                MAX_STDIN_BYTES);
    return false;
}

/* --- the code ----------------------------------------------------------------------------------- */

static bool read_json(const struct request *request, struct number_range range,
                      struct execute_fields *fields, struct problem *problem)
{
    if (!json_body_parse(request->body.data, request->body.length, &fields->body, problem) ||
        !json_body_text(fields->body, "code", &fields->code, &fields->code_length, problem) ||
        !json_body_real(fields->body, "timeout", range, &fields->timeout, problem) ||
        !json_body_flag(fields->body, "colors", &fields->colours, problem) ||
        !json_body_flag(fields->body, "detach", &fields->detach, problem) ||
        !json_body_flag(fields->body, "auto_install", &fields->auto_install, problem) ||
        !create_fields_env(fields->body, &fields->env, problem) ||
        !read_input(fields->body, fields, problem))
        return false;
    if (!fields->code)
        problem_set(problem, PROBLEM_INVALID_FIELD, "code is missing: the Python code to run.");
    return fields->code != NULL;
}

static bool read_text(const struct request *request, struct execute_fields *fields,
                      struct problem *problem)
{
    fields->code = request->body.length ? request->body.data : "";
    fields->code_length = request->body.length;
    if (utf8_valid(fields->code, fields->code_length))
        return true;
    problem_set(problem, PROBLEM_INVALID_UTF8,
                "The code is not valid UTF-8. Convert it, or send it as JSON.");
    return false;
}

bool execute_fields_read(const struct request *request, struct execute_fields *ret,
                         struct problem *problem)
{
    const struct config *config = request->service->config;
    struct number_range range = {LEAST_TIMEOUT, (double)config->timeout_seconds.maximum};
    *ret = (struct execute_fields){
        .auto_install = request->sandbox && request->sandbox->record.auto_install,
        .timeout = (double)config->timeout_seconds.standard,
        .stream = stream_wanted(request_header(request, MHD_HTTP_HEADER_ACCEPT)),
    };
    if (!query_number(request, range, &ret->timeout, problem) ||
        !request_query_flag(request, "colors", &ret->colours, problem) ||
        !request_query_flag(request, "detach", &ret->detach, problem) ||
        !request_query_flag(request, "auto_install", &ret->auto_install, problem))
        return false;
    if (request->json ? !read_json(request, range, ret, problem)
                      : !read_text(request, ret, problem))
        return false;
    if (ret->code_length > MAX_CODE_BYTES) {
        problem_set(problem, PROBLEM_BODY_TOO_LARGE,
                    "The code has %zu bytes; at most %d are taken.", ret->code_length,
                    MAX_CODE_BYTES);
        return false;
    }
    if (ret->detach && ret->stream) {
        problem_set(problem, PROBLEM_INVALID_FIELD,
                    "A detached execution cannot be streamed. Leave out detach, or ask for "
                    "application/json.");
        return false;
    }
    return true;
}

void execute_fields_free(struct execute_fields *fields)
{
    json_decref(fields->body);
    json_decref(fields->input);
    *fields = (struct execute_fields){0};
}

char *execute_fields_message(const struct execute_fields *fields, const char *execution_id)
{
    json_auto_t *message =
        json_pack("{s:s%, s:I, s:b}", "code", fields->code, fields->code_length, "timeout_ms",
                  (json_int_t)(fields->timeout * 1000), "colors", fields->colours);
    int r = message ? 0 : -1;
    if (fields->env)
        r |= json_object_set(message, "env", fields->env);
    if (fields->input)
        r |= json_object_set(message, "stdin", fields->input);
    if (fields->stream)
        r |= json_object_set_new(message, "stream", json_string(stream_kind_name(fields->stream)));
    if (fields->auto_install)
        r |= json_object_set_new(message, "auto_install", json_true());
    if (execution_id)
        r |= json_object_set_new(message, "detach", json_string(execution_id));
    return r == 0 ? json_dumps(message, JSON_COMPACT) : NULL;
}
