#include "huskd/record.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "base/clock.h"
#include "huskd/name.h"

enum {
    RECORD_VERSION = 2 /* since there are owners */
};

void record_expire_in(struct record *record, int64_t seconds)
{
    record->expires_at = wall_seconds() + seconds;
    record->expires_up = up_seconds() + seconds;
}

json_t *record_to_json(const struct record *record)
{
    char key[LINK_KEY_TEXT_SIZE];
    link_key_format(&record->link_key, key);
    json_t *json = json_pack(
        "{s:i, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "version", RECORD_VERSION,
        "name", record->name, "created_at", (json_int_t)record->created_at, "expires_at",
        (json_int_t)record->expires_at, "expires_up", (json_int_t)record->expires_up,
        "idle_seconds", (json_int_t)record->idle_seconds, "memory_bytes",
        (json_int_t)record->limits.memory_bytes, "disk_bytes",
        (json_int_t)record->limits.disk_bytes, "cpu_millis", (json_int_t)record->limits.cpu_millis,
        "pids", (json_int_t)record->limits.pids, "link_key", key);
    if (json && record->auto_install)
        (void)json_object_set_new(json, "auto_install", json_true());
    if (json && *record->owner) {
        char seal[2 * SEAL_BYTES + 1];
        (void)sodium_bin2hex(seal, sizeof seal, record->seal, sizeof record->seal);
        (void)json_object_set_new(json, "owner", json_string(record->owner));
        (void)json_object_set_new(json, "seal", json_string(seal));
    }
    if (json && *record->recipe)
        (void)json_object_set_new(json, "recipe", json_string(record->recipe));
    return json;
}

bool same_limits(const struct sandbox_limits *one, const struct sandbox_limits *other)
{
    return one->memory_bytes == other->memory_bytes && one->disk_bytes == other->disk_bytes &&
           one->cpu_millis == other->cpu_millis && one->pids == other->pids;
}

struct field {
    const char *key;
    json_int_t minimum, maximum;
};

enum {
    CREATED_AT,
    EXPIRES_AT,
    EXPIRES_UP,
    IDLE_SECONDS,
    MEMORY_BYTES,
    DISK_BYTES,
    CPU_MILLIS,
    PIDS,
    NUMBERS
};

static const struct field numbers[NUMBERS] = {
    [CREATED_AT] = {"created_at", 0, INT64_MAX},
    [EXPIRES_AT] = {"expires_at", 0, INT64_MAX},
    [EXPIRES_UP] = {"expires_up", 0, INT64_MAX},
    [IDLE_SECONDS] = {"idle_seconds", 0, MAX_TTL_SECONDS},
    [MEMORY_BYTES] = {"memory_bytes", 1, (json_int_t)MAX_MEMORY_MB *MIB},
    [DISK_BYTES] = {"disk_bytes", 1, (json_int_t)MAX_DISK_MB *MIB},
    [CPU_MILLIS] = {"cpu_millis", 1, MAX_CPUS * 1000},
    [PIDS] = {"pids", 1, MAX_PIDS},
};

/* The pool's have none. */
static int read_owner(const json_t *json, struct record *record, struct failure *why)
{
    const json_t *owner = json_object_get(json, "owner");
    const char *text = json_string_value(owner);
    size_t length = json_string_length(owner), seal_length = 0;
    const char *seal = json_string_value(json_object_get(json, "seal"));
    if (*record->recipe)
        return 0;
    if (!text || name_fault(text, length))
        return fail_plain(why, EINVAL, "its record has no usable owner");
    if (!seal ||
        sodium_hex2bin(record->seal, SEAL_BYTES, seal, strlen(seal), NULL, &seal_length, NULL) <
            0 ||
        seal_length != SEAL_BYTES)
        return fail_plain(why, EINVAL, "its record has no usable seal");
    memcpy(record->owner, text, length + 1);
    return 0;
}

static int read_name(const json_t *json, struct record *record, struct failure *why)
{
    const json_t *name = json_object_get(json, "name");
    size_t length = json_string_length(name);
    if (!json_is_string(name) || (length && name_fault(json_string_value(name), length)))
        return fail_plain(why, EINVAL, "its record has no usable name");
    memcpy(record->name, json_string_value(name), length + 1);
    return 0;
}

/* Most have none. */
static int read_recipe(const json_t *json, struct record *record, struct failure *why)
{
    const json_t *recipe = json_object_get(json, "recipe");
    size_t length = json_string_length(recipe);
    if (!recipe)
        return 0;
    if (length == 0 || length >= sizeof record->recipe)
        return fail_plain(why, EINVAL, "its record has no usable recipe");
    memcpy(record->recipe, json_string_value(recipe), length + 1);
    return 0;
}

int record_from_json(const json_t *json, struct record *ret, struct failure *why)
{
    struct record record = {0};
    json_int_t values[NUMBERS];
    if (json_integer_value(json_object_get(json, "version")) != RECORD_VERSION)
        return fail_plain(why, EINVAL, "it has no record, or one of another version");
    int r = read_name(json, &record, why);
    if (r == 0)
        r = read_recipe(json, &record, why);
    if (r == 0)
        r = read_owner(json, &record, why);
    if (r < 0)
        return r;
    const char *key = json_string_value(json_object_get(json, "link_key"));
    if (!key || link_key_parse(key, &record.link_key) < 0)
        return fail_plain(why, EINVAL, "its record has no usable link_key");
    for (size_t i = 0; i < NUMBERS; i++) {
        const json_t *value = json_object_get(json, numbers[i].key);
        values[i] = json_integer_value(value);
        if (!json_is_integer(value) || values[i] < numbers[i].minimum ||
            values[i] > numbers[i].maximum)
            return fail_plain(why, EINVAL, "its record has no usable %s", numbers[i].key);
    }
    record.auto_install = json_is_true(json_object_get(json, "auto_install"));
    record.created_at = values[CREATED_AT];
    record.expires_at = values[EXPIRES_AT];
    record.expires_up = values[EXPIRES_UP];
    record.idle_seconds = (uint32_t)values[IDLE_SECONDS];
    record.limits = (struct sandbox_limits){
        .memory_bytes = (uint64_t)values[MEMORY_BYTES],
        .disk_bytes = (uint64_t)values[DISK_BYTES],
        .cpu_millis = (uint32_t)values[CPU_MILLIS],
        .pids = (uint32_t)values[PIDS],
    };
    *ret = record;
    return 0;
}
