/* What a client may ask with complete, inspect and is_complete, and how it is told what is wrong. */
#include "unit.h"

#include "husk/limits.h"
#include "huskd/problem.h"
#include "huskd/question_fields.h"

/* JSON with ' for ". */
static json_t *body_of(const char *text)
{
    char body[1024];
    (void)snprintf(body, sizeof body, "%s", text);
    for (char *c = body; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *json = json_loads(body, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    assert_non_null(json);
    return json;
}

static void expect_message(enum question_kind kind, const char *text, const char *expected)
{
    json_auto_t *body = body_of(text);
    struct question_fields fields = {.kind = kind};
    struct problem problem;
    assert_true(question_fields_read(body, &fields, &problem));
    char *message = question_fields_message(&fields);
    assert_non_null(message);
    assert_string_equal(message, expected);
    free(message);
}

static void messages(void **state _unused_)
{
    expect_message(QUESTION_COMPLETE, "{'code': 'x.'}",
                   "{\"kind\":0,\"code\":\"x.\",\"cursor\":2,\"detail\":0,\"colors\":false}");
    expect_message(QUESTION_COMPLETE, "{'code': 'x.', 'cursor': 1, 'detail': 'ignored'}",
                   "{\"kind\":0,\"code\":\"x.\",\"cursor\":1,\"detail\":0,\"colors\":false}");
    expect_message(QUESTION_INSPECT, "{'code': 'x', 'detail': 1, 'colors': true, 'cursor': null}",
                   "{\"kind\":1,\"code\":\"x\",\"cursor\":1,\"detail\":1,\"colors\":true}");
    expect_message(QUESTION_IS_COMPLETE, "{'code': '', 'cursor': 'ignored'}",
                   "{\"kind\":2,\"code\":\"\",\"cursor\":0,\"detail\":0,\"colors\":false}");
}

static void the_cursor_counts_code_points(void **state _unused_)
{
    expect_message(
        QUESTION_COMPLETE, "{'code': 'ä€😀\\u0000'}",
        "{\"kind\":0,\"code\":\"ä€😀\\u0000\",\"cursor\":4,\"detail\":0,\"colors\":false}");
}

static void refused(void **state _unused_)
{
    static const struct {
        enum question_kind kind;
        const char *body;
        const char *about;
    } cases[] = {
        {QUESTION_COMPLETE, "{}", "code"},
        {QUESTION_IS_COMPLETE, "{'code': null}", "code"},
        {QUESTION_COMPLETE, "{'code': 7}", "code"},
        {QUESTION_COMPLETE, "{'code': 'ab', 'cursor': 3}", "cursor"},
        {QUESTION_COMPLETE, "{'code': '😀', 'cursor': 2}", "cursor"},
        {QUESTION_COMPLETE, "{'code': 'ab', 'cursor': -1}", "cursor"},
        {QUESTION_COMPLETE, "{'code': 'ab', 'cursor': 0.5}", "cursor"},
        {QUESTION_COMPLETE, "{'code': 'ab', 'cursor': 1e300}", "cursor"},
        {QUESTION_INSPECT, "{'code': 'ab', 'cursor': '1'}", "cursor"},
        {QUESTION_INSPECT, "{'code': 'ab', 'detail': 2}", "detail"},
        {QUESTION_INSPECT, "{'code': 'ab', 'detail': true}", "detail"},
        {QUESTION_INSPECT, "{'code': 'ab', 'colors': 1}", "colors"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        json_auto_t *body = body_of(cases[i].body);
        struct question_fields fields = {.kind = cases[i].kind};
        struct problem problem;
        assert_false(question_fields_read(body, &fields, &problem));
        assert_int_equal(problem.kind, PROBLEM_INVALID_FIELD);
        assert_memory_equal(problem.detail, cases[i].about, strlen(cases[i].about));
    }
}

static void length_of_code(void **state _unused_)
{
    char *code = calloc(1, MAX_CODE_BYTES + 2);
    assert_non_null(code);
    memset(code, 'x', MAX_CODE_BYTES + 1);
    for (int more = 0; more < 2; more++) {
        json_auto_t *body = json_pack("{s:s%}", "code", code, (size_t)(MAX_CODE_BYTES + more));
        struct question_fields fields = {.kind = QUESTION_COMPLETE};
        struct problem problem = {0};
        assert_int_equal(question_fields_read(body, &fields, &problem), more == 0);
        assert_int_equal(problem.kind, more ? PROBLEM_BODY_TOO_LARGE : PROBLEM_NONE);
    }
    free(code);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages),
        cmocka_unit_test(the_cursor_counts_code_points),
        cmocka_unit_test(refused),
        cmocka_unit_test(length_of_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
