#include "huskd/create_fields.h"

#include <string.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/json_body.h"
#include "huskd/name.h"
#include "huskd/package_fields.h"
#include "huskd/problem.h"
#include "huskd/record.h"

enum {
    LEAST_CPU_MILLIS = 50
};

static bool read_name(const json_t *body, struct record *record, struct problem *problem)
{
    const char *name = NULL;
    size_t length = 0;
    if (!json_body_text(body, "name", &name, &length, problem))
        return false;
    if (!name)
        return true;
    const char *fault = name_fault(name, length);
    if (fault) {
        problem_set(problem, PROBLEM_INVALID_FIELD, "name %s.", fault);
        return false;
    }
    memcpy(record->name, name, length + 1);
    return true;
}

static bool read_numbers(const json_t *body, const struct config *config, struct record *record,
                         struct problem *problem)
{
    uint64_t memory = config->memory_mb.standard, disk = config->disk_mb.standard;
    uint64_t pids = config->pids.standard, ttl = config->ttl_seconds.standard;
    uint64_t idle = config->idle_seconds.standard;
    double cpus = config->cpus;
    const struct {
        const char *key;
        double minimum;
        uint64_t maximum;
        uint64_t *value;
    } whole[] = {
        {"memory_mb", MIN_MEMORY_MB, config->memory_mb.maximum, &memory},
        {"disk_mb", MIN_DISK_MB, config->disk_mb.maximum, &disk},
        {"pids", MIN_PIDS, config->pids.maximum, &pids},
        {"ttl_seconds", MIN_TTL_SECONDS, config->ttl_seconds.maximum, &ttl},
        {"idle_seconds", 0, config->idle_seconds.maximum, &idle},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(whole); i++) {
        struct number_range range = {whole[i].minimum, (double)whole[i].maximum};
        if (!json_body_whole(body, whole[i].key, range, whole[i].value, problem))
            return false;
    }
    struct number_range cores = {LEAST_CPU_MILLIS / 1000.0, config->max_cpus};
    if (!json_body_real(body, "cpus", cores, &cpus, problem))
        return false;
    record->limits = (struct sandbox_limits){.memory_bytes = memory * MIB,
                                             .disk_bytes = disk * MIB,
                                             .cpu_millis = (uint32_t)(cpus * 1000 + 0.5),
                                             .pids = (uint32_t)pids};
    record->idle_seconds = (uint32_t)idle;
    record->created_at = wall_seconds();
    record_expire_in(record, (int64_t)ttl);
    return true;
}

/* Fields that API.md has and this version cannot serve yet are refused, not ignored. */
static bool refuse_later_fields(const json_t *body, struct problem *problem)
{
    const char *image = "default";
    size_t length = strlen(image);
    if (!json_body_text(body, "image", &image, &length, problem))
        return false;
    if (strcmp(image, "default") != 0) {
        problem_set(problem, PROBLEM_NOT_SUPPORTED_YET,
                    "image can only be \"default\" yet; leave it out.");
        return false;
    }
    return true;
}

bool create_fields_read(const json_t *body, const struct config *config, const struct caller *owner,
                        struct record *ret, struct problem *problem)
{
    struct record record = {0};
    if (!read_name(body, &record, problem) || !read_numbers(body, config, &record, problem) ||
        !refuse_later_fields(body, problem) ||
        !json_body_flag(body, "auto_install", &record.auto_install, problem))
        return false;
    memcpy(record.owner, owner->name, sizeof record.owner);
    *ret = record;
    return true;
}

bool create_fields_packages(const json_t *body, json_t **ret, struct problem *problem)
{
    json_t *list = json_array();
    *ret = NULL;
    bool good = package_list_read(json_object_get(body, "packages"), list, problem);
    if (good && json_array_size(list) > 0)
        *ret = json_incref(list);
    json_decref(list);
    return good;
}

static bool variable_name(const char *text)
{
    return *text &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") ==
               strlen(text) &&
           (*text < '0' || *text > '9');
}

/* Why env cannot be used, or NULL. */
static const char *env_fault(json_t *env)
{
    const char *key;
    json_t *value;
    size_t bytes = 0;
    if (!json_is_object(env))
        return "must be an object of strings";
    if (json_object_size(env) > MAX_ENV_ENTRIES)
        return "has too many entries (at most 128)";
    json_object_foreach(env, key, value)
    {
        if (!variable_name(key))
            return "has a name that is not made of letters, digits and '_'";
        if (!json_is_string(value))
            return "must be an object of strings";
        if (strlen(json_string_value(value)) != json_string_length(value))
            return "has a value with a NUL character";
        bytes += strlen(key) + json_string_length(value) + 2;
    }
    return bytes > MAX_ENV_BYTES ? "is too large (at most 32 KiB)" : NULL;
}

bool create_fields_env(const json_t *body, json_t **ret, struct problem *problem)
{
    json_t *env = json_object_get(body, "env");
    *ret = NULL;
    if (!env || json_is_null(env))
        return true;
    const char *fault = env_fault(env);
    if (fault) {
        problem_set(problem, PROBLEM_INVALID_FIELD, "env %s.", fault);
        return false;
    }
    *ret = env;
    return true;
}
