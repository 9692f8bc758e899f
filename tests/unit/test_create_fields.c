/* JSON bodies, the fields of create, names and records. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/create_fields.h"
#include "huskd/json_body.h"
#include "huskd/name.h"
#include "huskd/problem.h"
#include "huskd/record.h"

static struct config config;

static enum problem_kind parse(const char *text, size_t length)
{
    struct problem problem = {0};
    json_t *body = NULL;
    bool good = json_body_parse(text, length, &body, &problem);
    json_decref(body);
    return good ? PROBLEM_NONE : problem.kind;
}

static void test_parse(void **state)
{
    (void)state;
    static const char *const good[] = {"",
                                       "{}",
                                       " { } ",
                                       "{\"a\": 1}",
                                       "{\"a\": \"\\u0000\"}",
                                       "{\"a\": 1000000000000000000000000000000}",
                                       "{\"a\": \"[[[[\\\"{{{\"}"};
    static const char *const malformed[] = {"{",
                                            "}",
                                            "{'a': 1}",
                                            "{\"a\": 1,}",
                                            "{} x",
                                            "\xff",
                                            "{\"a\": NaN}",
                                            "{\"a\": \"\\ud800\"}",
                                            "{\"a\": 1e999}"};
    static const char *const other[] = {"[]", "5", "null", "\"text\"", "true"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(parse(good[i], strlen(good[i])), PROBLEM_NONE);
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++)
        assert_int_equal(parse(malformed[i], strlen(malformed[i])), PROBLEM_MALFORMED_JSON);
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        assert_int_equal(parse(other[i], strlen(other[i])), PROBLEM_INVALID_FIELD);
    assert_int_equal(parse("{}\0", 3), PROBLEM_MALFORMED_JSON);
}

static void test_excess(void **state)
{
    (void)state;
    static char text[2 * MAX_REQUEST_VALUES + 100];
    memset(text, '[', sizeof text);
    assert_int_equal(parse(text, sizeof text), PROBLEM_MALFORMED_JSON);
    /* Exactly as deep as is allowed, then one more. */
    for (size_t depth = MAX_JSON_DEPTH; depth <= MAX_JSON_DEPTH + 1; depth++) {
        size_t length = (size_t)snprintf(text, sizeof text, "{\"a\":");
        memset(text + length, '[', depth - 1);
        memset(text + length + depth - 1, ']', depth - 1);
        length += 2 * (depth - 1);
        text[length++] = '}';
        assert_int_equal(parse(text, length),
                         depth == MAX_JSON_DEPTH ? PROBLEM_NONE : PROBLEM_MALFORMED_JSON);
    }
    size_t length = (size_t)snprintf(text, sizeof text, "{\"a\": [0");
    for (int i = 0; i < MAX_REQUEST_VALUES; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, ",0");
    length += (size_t)snprintf(text + length, sizeof text - length, "]}");
    assert_int_equal(parse(text, length), PROBLEM_MALFORMED_JSON);
}

static enum problem_kind read_fields(const char *text, struct record *record, const char *named)
{
    struct problem problem = {0};
    json_auto_t *body = NULL;
    json_auto_t *packages = NULL;
    json_t *env;
    assert_true(json_body_parse(text, strlen(text), &body, &problem));
    const struct caller owner = {.name = "alice"};
    bool good = create_fields_read(body, &config, &owner, record, &problem) &&
                create_fields_env(body, &env, &problem) &&
                create_fields_packages(body, &packages, &problem);
    if (!good && named && !strstr(problem.detail, named))
        fail_msg("'%s' does not name %s", problem.detail, named);
    return good ? PROBLEM_NONE : problem.kind;
}

static void test_defaults(void **state)
{
    (void)state;
    struct record record;
    static const char *const bodies[] = {
        "{}", "{\"name\": null, \"ttl_seconds\": null, \"memory_mb\": null, \"cpus\": null, "
              "\"env\": null, "
              "\"packages\": null, \"image\": null, \"something\": [1]}"};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(read_fields(bodies[i], &record, NULL), PROBLEM_NONE);
        assert_string_equal(record.name, "");
        assert_int_equal(record.limits.memory_bytes, 1024ull * MIB);
        assert_int_equal(record.limits.disk_bytes, 1024ull * MIB);
        assert_int_equal(record.limits.cpu_millis, 1000);
        assert_int_equal(record.limits.pids, 256);
        assert_int_equal(record.expires_at - record.created_at, 86400);
        assert_int_equal(record.idle_seconds, 0);
    }
}

static void test_values(void **state)
{
    (void)state;
    struct record record;
    assert_int_equal(
        read_fields("{\"name\": \"a.b\", \"ttl_seconds\": 5, \"idle_seconds\": 6, "
                    "\"memory_mb\": 64.0, \"cpus\": 0.25, \"pids\": 16, \"disk_mb\": 16, "
                    "\"env\": {\"A_1\": \"\"}, \"packages\": [\"numpy\"], \"auto_install\": "
                    "true, \"image\": \"default\"}",
                    &record, NULL),
        PROBLEM_NONE);
    assert_string_equal(record.name, "a.b");
    assert_int_equal(record.expires_at - record.created_at, 5);
    assert_int_equal(record.idle_seconds, 6);
    assert_int_equal(record.limits.memory_bytes, 64ull * MIB);
    assert_int_equal(record.limits.cpu_millis, 250);
    assert_int_equal(record.limits.pids, 16);
    assert_true(record.auto_install);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *body, *field;
        enum problem_kind kind;
    } cases[] = {
        {"{\"memory_mb\": 63}", "memory_mb", PROBLEM_INVALID_FIELD},
        {"{\"memory_mb\": 8193}", "8192", PROBLEM_INVALID_FIELD},
        {"{\"memory_mb\": 1e30}", "memory_mb", PROBLEM_INVALID_FIELD},
        {"{\"memory_mb\": \"64\"}", "memory_mb", PROBLEM_INVALID_FIELD},
        {"{\"memory_mb\": 100.5}", "memory_mb", PROBLEM_INVALID_FIELD},
        {"{\"memory_mb\": true}", "memory_mb", PROBLEM_INVALID_FIELD},
        {"{\"cpus\": 0}", "cpus", PROBLEM_INVALID_FIELD},
        {"{\"cpus\": 17}", "cpus", PROBLEM_INVALID_FIELD},
        {"{\"pids\": 15}", "pids", PROBLEM_INVALID_FIELD},
        {"{\"disk_mb\": -1}", "disk_mb", PROBLEM_INVALID_FIELD},
        {"{\"ttl_seconds\": 0}", "ttl_seconds", PROBLEM_INVALID_FIELD},
        {"{\"idle_seconds\": -1}", "idle_seconds", PROBLEM_INVALID_FIELD},
        {"{\"name\": 5}", "name", PROBLEM_INVALID_FIELD},
        {"{\"name\": \"\"}", "name", PROBLEM_INVALID_FIELD},
        {"{\"name\": \"a\\u0000\"}", "name", PROBLEM_INVALID_FIELD},
        {"{\"env\": []}", "env", PROBLEM_INVALID_FIELD},
        {"{\"env\": {\"A\": 5}}", "env", PROBLEM_INVALID_FIELD},
        {"{\"env\": {\"\": \"\"}}", "env", PROBLEM_INVALID_FIELD},
        {"{\"env\": {\"1A\": \"\"}}", "env", PROBLEM_INVALID_FIELD},
        {"{\"env\": {\"A=B\": \"\"}}", "env", PROBLEM_INVALID_FIELD},
        {"{\"env\": {\"A\": \"x\\u0000\"}}", "env", PROBLEM_INVALID_FIELD},
        {"{\"packages\": \"numpy\"}", "packages", PROBLEM_INVALID_FIELD},
        {"{\"packages\": [5]}", "packages", PROBLEM_INVALID_FIELD},
        {"{\"packages\": [\"./x\"]}", "./x", PROBLEM_INVALID_FIELD},
        {"{\"auto_install\": 1}", "auto_install", PROBLEM_INVALID_FIELD},
        {"{\"image\": \"other\"}", "image", PROBLEM_NOT_SUPPORTED_YET},
        {"{\"image\": 5}", "image", PROBLEM_INVALID_FIELD},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct record record;
        assert_int_equal(read_fields(cases[i].body, &record, cases[i].field), cases[i].kind);
    }
}

static void test_env_limits(void **state)
{
    (void)state;
    struct problem problem;
    json_t *env = json_object(), *found;
    json_t *body = json_pack("{s:o}", "env", env);
    char key[16];
    for (int i = 0; i < MAX_ENV_ENTRIES; i++) {
        (void)snprintf(key, sizeof key, "K%d", i);
        assert_int_equal(json_object_set_new(env, key, json_string("v")), 0);
    }
    assert_true(create_fields_env(body, &found, &problem));
    assert_ptr_equal(found, env);
    assert_int_equal(json_object_set_new(env, "ONE_MORE", json_string("v")), 0);
    assert_false(create_fields_env(body, &found, &problem));
    json_decref(body);
    static char large[MAX_ENV_BYTES + 1];
    memset(large, 'x', sizeof large - 1);
    body = json_pack("{s:{s:s}}", "env", "A", large);
    assert_false(create_fields_env(body, &found, &problem));
    json_decref(body);
}

static void test_names(void **state)
{
    (void)state;
    char longest[MAX_NAME_LENGTH + 2] = {0};
    memset(longest, 'n', MAX_NAME_LENGTH);
    assert_null(name_fault(longest, MAX_NAME_LENGTH));
    longest[MAX_NAME_LENGTH] = 'n';
    assert_non_null(name_fault(longest, MAX_NAME_LENGTH + 1));
    static const char *const good[] = {"a", "A-Z_0.9", "...", "Create", "-", "123"};
    static const char *const bad[] = {"",
                                      ".",
                                      "..",
                                      "create",
                                      "file",
                                      "a b",
                                      "a/b",
                                      "ä",
                                      "a\n",
                                      "00000000-0000-4000-8000-000000000000",
                                      "ABCDEFAB-0000-4000-8000-00000000000F"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_null(name_fault(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_non_null(name_fault(bad[i], strlen(bad[i])));
    assert_non_null(name_fault("a\0b", 3));
}

/* What is kept by the shim comes back as it was; what is not as it was is refused. */
static void test_record(void **state)
{
    (void)state;
    struct record record, again;
    struct failure why;
    assert_int_equal(
        read_fields("{\"name\": \"kept\", \"idle_seconds\": 7, \"cpus\": 1.5}", &record, NULL),
        PROBLEM_NONE);
    record.link_key = link_key_new();
    json_t *json = record_to_json(&record);
    assert_int_equal(record_from_json(json, &again, &why), 0);
    assert_memory_equal(&record, &again, sizeof record);
    static const char *const keys[] = {"version",    "name",         "created_at",   "expires_at",
                                       "expires_up", "idle_seconds", "memory_bytes", "disk_bytes",
                                       "cpu_millis", "pids",         "link_key",     "owner",
                                       "seal"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        json_t *spoilt = json_deep_copy(json);
        assert_int_equal(json_object_set_new(spoilt, keys[i], json_string("/../")), 0);
        assert_true(record_from_json(spoilt, &again, &why) < 0);
        assert_int_equal(json_object_set_new(spoilt, keys[i], json_integer(-1)), 0);
        assert_true(record_from_json(spoilt, &again, &why) < 0);
        assert_int_equal(json_object_del(spoilt, keys[i]), 0);
        assert_true(record_from_json(spoilt, &again, &why) < 0);
        json_decref(spoilt);
    }
    assert_true(record_from_json(NULL, &again, &why) < 0);
    json_decref(json);
}

static int set_up(void **state)
{
    (void)state;
    config_defaults(&config);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    config_free(&config);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),    cmocka_unit_test(test_excess),
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_env_limits),
        cmocka_unit_test(test_names),    cmocka_unit_test(test_record),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
