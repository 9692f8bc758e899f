#include "huskd/package_fields.h"

#include <string.h>

#include "base/text.h"
#include "husk/limits.h"
#include "huskd/json_body.h"
#include "huskd/problem.h"
#include "huskd/requirement.h"

static const char home[] = "/home/user/";

bool package_list_read(const json_t *given, json_t *list, struct problem *problem)
{
    size_t i;
    const json_t *entry;
    if (!given || json_is_null(given))
        return true;
    if (!json_is_array(given)) {
        problem_set(problem, PROBLEM_INVALID_FIELD, "packages must be a list of strings.");
        return false;
    }
    json_array_foreach(given, i, entry)
    {
        if (!json_is_string(entry)) {
            problem_set(problem, PROBLEM_INVALID_FIELD, "packages must be a list of strings.");
            return false;
        }
        if (!requirement_add(list, json_string_value(entry), json_string_length(entry), problem))
            return false;
    }
    return true;
}

static bool read_file_name(struct package_fields *fields, struct problem *problem)
{
    size_t length = 0;
    if (!json_body_text(fields->body, "requirements_file", &fields->file, &length, problem))
        return false;
    if (fields->file && starts_with(fields->file, home))
        fields->file += strlen(home);
    if (!fields->file || (*fields->file && strlen(fields->file) <= MAX_FILE_PATH_BYTES &&
                          !memchr(fields->file, '\0', length)))
        return true;
    problem_set(problem, PROBLEM_INVALID_FIELD,
                "requirements_file must be the path of a file in the working directory, such as "
                "requirements.txt.");
    return false;
}

static bool read_what(struct package_fields *fields, struct problem *problem)
{
    const char *name = NULL, *text = NULL;
    size_t name_length = 0, text_length = 0;
    if (!json_body_text(fields->body, "package_name", &name, &name_length, problem) ||
        !json_body_text(fields->body, "requirements", &text, &text_length, problem) ||
        !read_file_name(fields, problem) ||
        !package_list_read(json_body_value(fields->body, "packages"), fields->requirements,
                           problem))
        return false;
    if (name && !requirement_add(fields->requirements, name, name_length, problem))
        return false;
    if (text_length > MAX_REQUIREMENTS_BYTES) {
        problem_set(problem, PROBLEM_INVALID_FIELD, "requirements has more than %d bytes.",
                    MAX_REQUIREMENTS_BYTES);
        return false;
    }
    if (text && !requirements_parse(text, text_length, fields->requirements, problem))
        return false;
    if (json_array_size(fields->requirements) == 0 && !fields->file) {
        problem_set(problem, PROBLEM_INVALID_FIELD,
                    "Say what to install: {\"package_name\": \"numpy\"}, {\"packages\": "
                    "[\"numpy>=2\"]}, {\"requirements\": \"…\"} or {\"requirements_file\": "
                    "\"requirements.txt\"}.");
        return false;
    }
    return true;
}

bool package_fields_read(json_t *body, struct package_fields *ret, struct problem *problem)
{
    *ret = (struct package_fields){
        .body = json_incref(body), .requirements = json_array(), .wait = true};
    return read_what(ret, problem) &&
           json_body_flag(ret->body, "upgrade", &ret->upgrade, problem) &&
           json_body_flag(ret->body, "pre", &ret->pre, problem) &&
           json_body_flag(ret->body, "wait", &ret->wait, problem);
}

void package_fields_free(struct package_fields *fields)
{
    json_decref(fields->body);
    json_decref(fields->requirements);
    *fields = (struct package_fields){0};
}
