/* JSON bodies of all routes: create, command, install, input, and requirements as text. */
#include "fuzz.h"

#include "http/execute_fields.h"
#include "huskd/caller.h"
#include "huskd/command_fields.h"
#include "huskd/config.h"
#include "huskd/create_fields.h"
#include "huskd/json_body.h"
#include "huskd/package_fields.h"
#include "huskd/problem.h"
#include "huskd/record.h"
#include "huskd/requirement.h"

static struct config config;

/* Whoever refuses says why. */
static void refused(const struct problem *problem)
{
    check(problem->kind != PROBLEM_NONE && problem->kind < PROBLEM_KINDS);
    check(strlen(problem->detail) < sizeof problem->detail);
}

static void try_create(json_t *body)
{
    struct problem problem = {0};
    struct record record;
    const struct caller owner = {.name = "alice"};
    json_t *env = NULL;
    json_auto_t *packages = NULL;
    if (!create_fields_read(body, &config, &owner, &record, &problem) ||
        !create_fields_env(body, &env, &problem) ||
        !create_fields_packages(body, &packages, &problem))
        return refused(&problem);
    check(strlen(record.name) <= MAX_NAME_LENGTH);
    check(record.limits.memory_bytes <= config.memory_mb.maximum * MIB);
    json_auto_t *kept = record_to_json(&record);
    struct record again;
    if (!memory_is_short)
        check(kept && record_from_json(kept, &again, NULL) == 0 &&
              !strcmp(again.name, record.name));
}

static void try_command(json_t *body)
{
    struct problem problem = {0};
    struct command_fields fields;
    if (command_fields_read(body, &config, &fields, &problem))
        free(command_fields_message(&fields, "00000000-0000-0000-0000-000000000000"));
    else
        refused(&problem);
    command_fields_free(&fields);
}

static void try_install(json_t *body)
{
    struct problem problem = {0};
    struct package_fields fields;
    if (!package_fields_read(body, &fields, &problem))
        refused(&problem);
    package_fields_free(&fields);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!config.listen)
        config_defaults(&config);
    struct problem problem = {0};
    const char *text = (const char *)data;
    json_auto_t *body = NULL, *list = json_array();
    json_t *value = NULL;
    struct record record;
    if (list && !requirements_parse(text, size, list, &problem))
        refused(&problem);
    if (!json_body_parse(text, size, &body, &problem)) {
        refused(&problem);
        return 0;
    }
    check(json_is_object(body));
    try_create(body);
    try_command(body);
    try_install(body);
    (void)input_field_read(body, &value, &problem);
    (void)record_from_json(body, &record, NULL);
    return 0;
}
