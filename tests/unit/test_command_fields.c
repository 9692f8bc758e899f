/* What a client may ask for with command, and how it is told what is wrong. */
#include "unit.h"

#include "husk/limits.h"
#include "huskd/command_fields.h"
#include "huskd/config.h"
#include "huskd/problem.h"

static struct config config;

static int set_up(void **state)
{
    (void)state;
    config_defaults(&config);
    config.timeout_seconds.standard = 30;
    config.timeout_seconds.maximum = 600;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    config_free(&config);
    return 0;
}

/* JSON with ' for ". */
static bool read_fields(const char *text, struct command_fields *ret, struct problem *problem)
{
    char body[1024];
    (void)snprintf(body, sizeof body, "%s", text);
    for (char *c = body; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_auto_t *json = json_loads(body, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    assert_non_null(json);
    *problem = (struct problem){0};
    return command_fields_read(json, &config, ret, problem);
}

/* What the shim is sent for a good one. */
static json_t *message_for(const char *text, const char *stream, const char *tool)
{
    struct command_fields fields;
    struct problem problem;
    assert_true(read_fields(text, &fields, &problem));
    fields.stream = stream;
    fields.tool = tool ? json_pack("{s:s}", "sandbox", tool) : NULL;
    char *message = command_fields_message(&fields, "the-id");
    assert_non_null(message);
    json_t *json = json_loads(message, 0, NULL);
    assert_non_null(json);
    free(message);
    command_fields_free(&fields);
    return json;
}

static json_int_t timeout_of(const char *text)
{
    json_auto_t *message = message_for(text, NULL, NULL);
    return json_integer_value(json_object_get(message, "timeout_ms"));
}

static void what_the_shim_is_sent(void **state)
{
    (void)state;
    json_auto_t *least = message_for("{'command': 'ls', 'unknown': 1, 'cwd': null}", NULL, NULL);
    assert_int_equal(json_object_size(least), 4);
    assert_string_equal(json_string_value(json_object_get(least, "id")), "the-id");
    assert_string_equal(json_string_value(json_object_get(least, "command")), "ls");
    assert_true(json_is_false(json_object_get(least, "detach")));
    json_auto_t *most = message_for("{'commands': ['a', ['b']], 'cwd': '/tmp', 'env': {'A': 'b'}, "
                                    "'stdin': 'x', 'timeout': 0.5}",
                                    "ndjson", "a");
    assert_int_equal(json_array_size(json_object_get(most, "commands")), 2);
    assert_string_equal(json_string_value(json_object_get(most, "cwd")), "/tmp");
    assert_string_equal(json_string_value(json_object_get(most, "stdin")), "x");
    assert_string_equal(json_string_value(json_object_get(most, "stream")), "ndjson");
    assert_int_equal(json_object_size(json_object_get(most, "mcp")), 1);
    assert_int_equal(json_object_size(json_object_get(most, "env")), 1);
    assert_int_equal(json_integer_value(json_object_get(most, "timeout_ms")), 500);
}

static void timeouts(void **state)
{
    (void)state;
    assert_int_equal(timeout_of("{'command': 'ls'}"), 30000);
    assert_int_equal(timeout_of("{'command': 'ls', 'detach': true}"), 600000);
    assert_int_equal(timeout_of("{'command': 'ls', 'detach': true, 'timeout': 7}"), 7000);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *body, *word;
    } bad[] = {
        {"{}", "command is missing"},
        {"{'command': 'a', 'commands': ['b']}", "both"},
        {"{'command': 5}", "command must be"},
        {"{'command': ' '}", "command is empty"},
        {"{'command': []}", "command is empty"},
        {"{'command': ['a', null]}", "command must be"},
        {"{'command': 'a\\u0000'}", "NUL"},
        {"{'command': ['a\\u0000']}", "NUL"},
        {"{'commands': []}", "commands must be"},
        {"{'commands': ['a', '']}", "one of commands is empty"},
        {"{'command': 'a', 'cwd': ''}", "cwd must be"},
        {"{'command': 'a', 'cwd': []}", "cwd must be"},
        {"{'command': 'a', 'stdin': 5}", "stdin must be"},
        {"{'command': 'a', 'env': 5}", "env must be"},
        {"{'command': 'a', 'timeout': 601}", "timeout must be"},
        {"{'command': 'a', 'detach': 'yes'}", "detach must be"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        struct command_fields fields;
        struct problem problem;
        assert_false(read_fields(bad[i].body, &fields, &problem));
        assert_int_equal(problem.kind, PROBLEM_INVALID_FIELD);
        if (!strstr(problem.detail, bad[i].word))
            fail_msg("%s: %s", bad[i].body, problem.detail);
        command_fields_free(&fields);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_the_shim_is_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(timeouts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
