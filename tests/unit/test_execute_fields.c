/* What a client may ask for with execute, and how it is told what is wrong. */
#include "unit.h"

#include "http/execute_fields.h"
#include "http/request.h"
#include "huskd/config.h"
#include "huskd/json_body.h"
#include "huskd/problem.h"
#include "huskd/service.h"

static struct config config;
static struct service service = {.config = &config};
static const char *accept_header; /* of every request */

/* Instead of libmicrohttpd's: there is no connection. */
const char *MHD_lookup_connection_value(struct MHD_Connection *connection, enum MHD_ValueKind kind,
                                        const char *key)
{
    (void)connection;
    assert_int_equal(kind, MHD_HEADER_KIND);
    assert_string_equal(key, "Accept");
    return accept_header;
}

static int set_up(void **state)
{
    (void)state;
    config_defaults(&config);
    config.timeout_seconds.standard = 30;
    config.timeout_seconds.maximum = 600;
    accept_header = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    config_free(&config);
    return 0;
}

static bool read_bytes(const char *body, size_t length, bool json, const char *query,
                       struct execute_fields *ret, struct problem *problem)
{
    char query_copy[128];
    struct request request = {.service = &service, .json = json};
    request.body.data = (char *)(uintptr_t)body;
    request.body.length = length;
    if (query) {
        (void)snprintf(query_copy, sizeof query_copy, "%s", query);
        request.query = query_copy;
    }
    *problem = (struct problem){0};
    return execute_fields_read(&request, ret, problem);
}

/* A good one: JSON with ' for ". The caller frees the fields. */
static struct execute_fields read_good(const char *text, const char *query)
{
    static char body[1024]; /* what was read may borrow from it */
    struct execute_fields fields;
    struct problem problem;
    (void)snprintf(body, sizeof body, "%s", text);
    for (char *c = body; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    if (!read_bytes(body, strlen(body), true, query, &fields, &problem))
        fail_msg("%s with query %s: %s", text, query ? query : "(none)", problem.detail);
    return fields;
}

/* One that is refused, with a sentence that has `named` in it. */
static void refuse(const char *text, const char *query, enum problem_kind kind, const char *named)
{
    char body[1024];
    struct execute_fields fields;
    struct problem problem;
    (void)snprintf(body, sizeof body, "%s", text);
    for (char *c = body; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    if (read_bytes(body, strlen(body), true, query, &fields, &problem))
        fail_msg("%s with query %s is taken", text, query ? query : "(none)");
    execute_fields_free(&fields);
    if (problem.kind != kind || !strstr(problem.detail, named))
        fail_msg("%s with query %s: '%s'", text, query ? query : "(none)", problem.detail);
}

static void text_bodies(void **state)
{
    (void)state;
    struct execute_fields fields;
    struct problem problem;
    assert_true(read_bytes("print(1)\0x", 10, false, NULL, &fields, &problem));
    assert_int_equal(fields.code_length, 10);
    assert_memory_equal(fields.code, "print(1)\0x", 10);
    assert_float_equal(fields.timeout, 30, 0);
    assert_false(fields.colours);
    assert_false(fields.detach);
    assert_null(fields.env);
    assert_null(fields.input);
    assert_int_equal(fields.stream, STREAM_NONE);
    execute_fields_free(&fields);
    /* Even if it looks like JSON. */
    assert_true(read_bytes("{\"code\": 5}", 11, false, "timeout=1.5&colors=1&detach=yes", &fields,
                           &problem));
    assert_int_equal(fields.code_length, 11);
    assert_float_equal(fields.timeout, 1.5, 0);
    assert_true(fields.colours);
    assert_true(fields.detach);
    execute_fields_free(&fields);
    assert_true(read_bytes(NULL, 0, false, "", &fields, &problem));
    assert_string_equal(fields.code, "");
    assert_int_equal(fields.code_length, 0);
    execute_fields_free(&fields);
    assert_false(read_bytes("x = '\xff'", 7, false, NULL, &fields, &problem));
    assert_int_equal(problem.kind, PROBLEM_INVALID_UTF8);
    execute_fields_free(&fields);
}

static void json_bodies(void **state)
{
    (void)state;
    struct execute_fields fields = read_good("{'code': 'a\\u0000b'}", NULL);
    assert_int_equal(fields.code_length, 3);
    assert_memory_equal(fields.code, "a\0b", 3);
    assert_float_equal(fields.timeout, 30, 0);
    assert_null(fields.input);
    execute_fields_free(&fields);
    assert_null(fields.body);
    fields = read_good("{'code': '', 'timeout': null, 'colors': null, 'detach': null, 'env': null, "
                       "'stdin': null, 'something': [5]}",
                       "timeout=7&colors=on&detach=0");
    assert_string_equal(fields.code, "");
    assert_float_equal(fields.timeout, 7, 0);
    assert_true(fields.colours);
    assert_false(fields.detach);
    assert_null(fields.env);
    assert_null(fields.input);
    execute_fields_free(&fields);
    /* The body has the last word. */
    fields = read_good("{'code': '1', 'timeout': 0.001, 'colors': false, 'detach': true, 'env': "
                       "{'A': 'b'}}",
                       "timeout=7&colors=1&detach=0");
    assert_float_equal(fields.timeout, 0.001, 0);
    assert_false(fields.colours);
    assert_true(fields.detach);
    assert_string_equal(json_string_value(json_object_get(fields.env, "A")), "b");
    execute_fields_free(&fields);
    execute_fields_free(&(struct execute_fields){0});
}

static void refused_fields(void **state)
{
    (void)state;
    static const struct {
        const char *body, *named;
    } cases[] = {
        {"{}", "code"},
        {"{'code': null}", "code"},
        {"{'code': 5}", "code"},
        {"{'code': ['x']}", "code"},
        {"{'code': '1', 'timeout': '5'}", "timeout"},
        {"{'code': '1', 'timeout': true}", "timeout"},
        {"{'code': '1', 'timeout': 0}", "timeout"},
        {"{'code': '1', 'timeout': 0.0009}", "timeout"},
        {"{'code': '1', 'timeout': -1}", "timeout"},
        {"{'code': '1', 'timeout': 600.1}", "600"},
        {"{'code': '1', 'timeout': 1e300}", "timeout"},
        {"{'code': '1', 'colors': 1}", "colors"},
        {"{'code': '1', 'colors': 'true'}", "colors"},
        {"{'code': '1', 'detach': 'yes'}", "detach"},
        {"{'code': '1', 'detach': {}}", "detach"},
        {"{'code': '1', 'env': []}", "env"},
        {"{'code': '1', 'env': {'A': 5}}", "env"},
        {"{'code': '1', 'env': {'1A': ''}}", "env"},
        {"{'code': '1', 'stdin': 5}", "stdin"},
        {"{'code': '1', 'stdin': true}", "stdin"},
        {"{'code': '1', 'stdin': {}}", "stdin"},
        {"{'code': '1', 'stdin': [5]}", "stdin"},
        {"{'code': '1', 'stdin': ['a', null]}", "stdin"},
        {"{'code': '1', 'stdin': [['a']]}", "stdin"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        refuse(cases[i].body, NULL, PROBLEM_INVALID_FIELD, cases[i].named);
    refuse("[]", NULL, PROBLEM_INVALID_FIELD, "object");
    refuse("{'code': ", NULL, PROBLEM_MALFORMED_JSON, "JSON");
}

static void refused_queries(void **state)
{
    (void)state;
    static const struct {
        const char *query, *named;
    } cases[] = {
        {"timeout", "timeout"},      {"timeout=", "timeout"},       {"timeout=x", "timeout"},
        {"timeout=0", "timeout"},    {"timeout=601", "600"},        {"timeout=nan", "timeout"},
        {"timeout=inf", "timeout"},  {"timeout=5s", "timeout"},     {"timeout=%zz", "timeout"},
        {"timeout=5%00", "timeout"}, {"a=1&timeout=-1", "timeout"}, {"colors", "colors"},
        {"colors=", "colors"},       {"colors=2", "colors"},        {"detach=maybe", "detach"},
        {"detach=%ff", "detach"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        refuse("{'code': '1'}", cases[i].query, PROBLEM_INVALID_FIELD, cases[i].named);
    /* Something else, or part of a name. */
    struct execute_fields fields = read_good("{'code': '1'}", "timeouts=x&color=7&xdetach=5&&=");
    assert_float_equal(fields.timeout, 30, 0);
    execute_fields_free(&fields);
    fields = read_good("{'code': '1'}", "timeout=1%2E5");
    assert_float_equal(fields.timeout, 1.5, 0);
    execute_fields_free(&fields);
}

static void size_of_code(void **state)
{
    (void)state;
    char *code = malloc(MAX_CODE_BYTES + 1);
    assert_non_null(code);
    memset(code, '\x01', MAX_CODE_BYTES + 1);
    for (size_t more = 0; more < 2; more++) {
        struct execute_fields fields;
        struct problem problem;
        size_t length = MAX_CODE_BYTES + more;
        assert_int_equal(read_bytes(code, length, false, NULL, &fields, &problem), more == 0);
        assert_int_equal(problem.kind, more ? PROBLEM_BODY_TOO_LARGE : PROBLEM_NONE);
        execute_fields_free(&fields);
        json_t *json = json_pack("{s:s%}", "code", code, length);
        char *text = json_dumps(json, 0);
        assert_int_equal(read_bytes(text, strlen(text), true, NULL, &fields, &problem), more == 0);
        assert_int_equal(problem.kind, more ? PROBLEM_BODY_TOO_LARGE : PROBLEM_NONE);
        execute_fields_free(&fields);
        json_decref(json);
        free(text);
    }
    free(code);
}

/* --- stdin ---------------------------------------------------------------------------------- */

static void lines_of_stdin(void **state)
{
    (void)state;
    static const struct {
        const char *given, *lines;
    } cases[] = {
        {"\"\"", "[]"},
        {"\"a\"", "[\"a\"]"},
        {"\"a\\n\"", "[\"a\"]"},
        {"\"a\\nb\"", "[\"a\",\"b\"]"},
        {"\"a\\nb\\n\"", "[\"a\",\"b\"]"},
        {"\"\\n\"", "[\"\"]"},
        {"\"\\n\\n\"", "[\"\",\"\"]"},
        {"\"\\na\"", "[\"\",\"a\"]"},
        {"\"a\\r\\nb\\u0000\\n\"", "[\"a\\r\",\"b\\u0000\"]"},
        {"\"\\u2028\\n\"", "[\"\\u2028\"]"},
        {"\"ask\"", "[\"ask\"]"}, /* there is nobody to ask without a stream */
        {"[]", "[]"},
        {"[\"\"]", "[\"\"]"},
        {"[\"a\",\"b\"]", "[\"a\",\"b\"]"},
        {"[\"a\\n\",\"\\n\"]", "[\"a\",\"\"]"},
        {"[\"a\\nb\\n\\n\"]", "[\"a\\nb\\n\"]"}, /* one answer, whatever is in it */
        {"[\"ask\"]", "[\"ask\"]"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char body[200];
        struct execute_fields fields;
        struct problem problem;
        (void)snprintf(body, sizeof body, "{\"code\": \"1\", \"stdin\": %s}", cases[i].given);
        assert_true(read_bytes(body, strlen(body), true, NULL, &fields, &problem));
        json_t *expected = json_loads(cases[i].lines, JSON_ALLOW_NUL, NULL);
        assert_non_null(expected);
        if (!json_equal(fields.input, expected))
            fail_msg("%s is not taken for %s", cases[i].given, cases[i].lines);
        json_decref(expected);
        execute_fields_free(&fields);
    }
}

static void ask_needs_a_stream(void **state)
{
    (void)state;
    accept_header = "text/event-stream";
    struct execute_fields fields = read_good("{'code': '1', 'stdin': 'ask'}", NULL);
    assert_int_equal(fields.stream, STREAM_EVENTS);
    assert_string_equal(json_string_value(fields.input), "ask");
    execute_fields_free(&fields);
    static const char *const lines[] = {"'ask\\n'", "['ask']", "'Ask'", "'ask '"};
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        char body[100];
        (void)snprintf(body, sizeof body, "{'code': '1', 'stdin': %s}", lines[i]);
        fields = read_good(body, NULL);
        assert_int_equal(json_array_size(fields.input), 1);
        execute_fields_free(&fields);
    }
}

/* `stdin` is stolen. */
static bool takes(json_t *input)
{
    struct execute_fields fields;
    struct problem problem;
    json_t *json = json_pack("{s:s, s:o}", "code", "1", "stdin", input);
    char *text = json_dumps(json, 0);
    assert_non_null(text);
    bool good = read_bytes(text, strlen(text), true, NULL, &fields, &problem);
    if (!good) {
        assert_int_equal(problem.kind, PROBLEM_INVALID_FIELD);
        assert_non_null(strstr(problem.detail, "stdin"));
    }
    execute_fields_free(&fields);
    json_decref(json);
    free(text);
    return good;
}

static void size_of_stdin(void **state)
{
    (void)state;
    char *text = malloc(MAX_STDIN_BYTES + 1);
    assert_non_null(text);
    memset(text, '\n', MAX_STDIN_BYTES + 1);
    assert_true(takes(json_stringn(text, MAX_STDIN_LINES)));
    assert_false(takes(json_stringn(text, MAX_STDIN_LINES + 1)));
    memset(text, 'x', MAX_STDIN_BYTES + 1);
    assert_true(takes(json_stringn(text, MAX_STDIN_BYTES)));
    assert_false(takes(json_stringn(text, MAX_STDIN_BYTES + 1)));
    size_t half = MAX_STDIN_BYTES / 2;
    assert_true(takes(json_pack("[s%, s%]", text, half, text, half)));
    assert_false(takes(json_pack("[s%, s%]", text, half, text, half + 1)));
    free(text);
    json_t *lines = json_array();
    while (json_array_size(lines) < MAX_STDIN_LINES)
        json_array_append_new(lines, json_string("x"));
    assert_true(takes(json_incref(lines)));
    json_array_append_new(lines, json_string("x"));
    assert_false(takes(lines));
}

/* --- streams and detaching ------------------------------------------------------------------ */

static void detached_and_streamed(void **state)
{
    (void)state;
    accept_header = "application/x-ndjson";
    refuse("{'code': '1', 'detach': true}", NULL, PROBLEM_INVALID_FIELD, "detach");
    refuse("{'code': '1'}", "detach=1", PROBLEM_INVALID_FIELD, "detach");
    struct execute_fields fields = read_good("{'code': '1', 'detach': false}", "detach=1");
    assert_int_equal(fields.stream, STREAM_LINES);
    execute_fields_free(&fields);
    accept_header = "application/json";
    fields = read_good("{'code': '1', 'detach': true}", NULL);
    assert_int_equal(fields.stream, STREAM_NONE);
    assert_true(fields.detach);
    execute_fields_free(&fields);
}

static void expect_message(const struct execute_fields *fields, const char *id,
                           const char *expected)
{
    char *text = execute_fields_message(fields, id);
    assert_non_null(text);
    json_t *message = json_loads(text, JSON_ALLOW_NUL, NULL);
    json_t *wanted = json_loads(expected, JSON_ALLOW_NUL, NULL);
    assert_non_null(wanted);
    if (!json_equal(message, wanted))
        fail_msg("the shim gets %s,\nnot %s", text, expected);
    json_decref(message);
    json_decref(wanted);
    free(text);
}

static void message_for_the_shim(void **state)
{
    (void)state;
    struct execute_fields fields = read_good("{'code': 'a\\u0000\\u00e9', 'timeout': 0.001}", NULL);
    expect_message(&fields, NULL,
                   "{\"code\":\"a\\u0000\\u00e9\",\"timeout_ms\":1,\"colors\":false}");
    expect_message(&fields, "some-id",
                   "{\"code\":\"a\\u0000\\u00e9\",\"timeout_ms\":1,\"colors\":false,\"detach\":"
                   "\"some-id\"}");
    execute_fields_free(&fields);
    accept_header = "text/event-stream";
    fields = read_good("{'code': '1', 'colors': true, 'env': {'A': ''}, 'stdin': 'ask'}", NULL);
    expect_message(&fields, NULL,
                   "{\"code\":\"1\",\"timeout_ms\":30000,\"colors\":true,\"env\":{\"A\":\"\"},"
                   "\"stdin\":\"ask\",\"stream\":\"sse\"}");
    execute_fields_free(&fields);
    accept_header = "application/x-ndjson";
    fields = read_good("{'code': '1', 'stdin': ''}", NULL);
    expect_message(&fields, NULL,
                   "{\"code\":\"1\",\"timeout_ms\":30000,\"colors\":false,\"stdin\":[],\"stream\":"
                   "\"ndjson\"}");
    execute_fields_free(&fields);
}

/* --- input ---------------------------------------------------------------------------------- */

static void input_field(void **state)
{
    (void)state;
    static const struct {
        const char *body, *value, *named; /* value NULL: the end; named: it is refused */
    } cases[] = {
        {"{\"value\": \"line\"}", "line", NULL},
        {"{\"value\": \"\"}", "", NULL},
        {"{\"value\": \"x\", \"eof\": false}", "x", NULL},
        {"{\"value\": \"x\", \"eof\": null}", "x", NULL},
        {"{\"value\": null}", NULL, NULL},
        {"{\"value\": null, \"eof\": false}", NULL, NULL},
        {"{\"eof\": true}", NULL, NULL},
        {"{\"eof\": true, \"value\": \"x\"}", NULL, NULL},
        {"{}", NULL, "value"},
        {"{\"eof\": false}", NULL, "value"},
        {"{\"value\": 5}", NULL, "value"},
        {"{\"value\": true}", NULL, "value"},
        {"{\"value\": [\"x\"]}", NULL, "value"},
        {"{\"eof\": \"true\", \"value\": \"x\"}", NULL, "eof"},
        {"{\"eof\": 1}", NULL, "eof"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct problem problem = {0};
        json_t *body = json_loads(cases[i].body, 0, NULL), *value = body;
        bool good = input_field_read(body, &value, &problem);
        if (good != !cases[i].named)
            fail_msg("%s is %s", cases[i].body, good ? "taken" : "refused");
        if (good && cases[i].value)
            assert_string_equal(json_string_value(value), cases[i].value);
        else if (good)
            assert_null(value);
        if (!good) {
            assert_int_equal(problem.kind, PROBLEM_INVALID_FIELD);
            assert_ptr_equal(strstr(problem.detail, cases[i].named), problem.detail);
        }
        json_decref(body);
    }
}

static void size_of_input(void **state)
{
    (void)state;
    char *text = malloc(MAX_STDIN_BYTES + 1);
    assert_non_null(text);
    memset(text, '\n', MAX_STDIN_BYTES + 1);
    for (size_t more = 0; more < 2; more++) {
        struct problem problem = {0};
        json_t *value;
        json_t *body = json_pack("{s:s%}", "value", text, MAX_STDIN_BYTES + more);
        assert_int_equal(input_field_read(body, &value, &problem), more == 0);
        assert_int_equal(problem.kind, more ? PROBLEM_INVALID_FIELD : PROBLEM_NONE);
        json_decref(body);
    }
    free(text);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(text_bodies),          TEST(json_bodies),   TEST(refused_fields),
        TEST(refused_queries),      TEST(size_of_code),  TEST(lines_of_stdin),
        TEST(ask_needs_a_stream),   TEST(size_of_stdin), TEST(detached_and_streamed),
        TEST(message_for_the_shim), TEST(input_field),   TEST(size_of_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
