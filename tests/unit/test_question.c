/* What a prompt asks: what the kernel is sent, and what of its reply gets through. */
#include "unit.h"

#include "base/text.h"
#include "husk/limits.h"
#include "shim/order.h"
#include "shim/question.h"

/* JSON with ' for ". */
static json_t *json_from(const char *text)
{
    char quoted[1024];
    (void)snprintf(quoted, sizeof quoted, "%s", text);
    for (char *c = quoted; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *json = json_loads(quoted, JSON_ALLOW_NUL, NULL);
    assert_non_null(json);
    return json;
}

static int read_question(const char *text, struct question *ret)
{
    json_auto_t *body = json_from(text);
    return question_read(body, ret);
}

/* The answer that a reply amounts to; NULL: none. */
static json_t *answer_to(struct question question, const json_t *content)
{
    _cleanup_buffer_ struct buffer out = BUFFER_LIMITED(MAX_QUESTION_ANSWER_BYTES);
    int r = question_answer(&question, content, &out);
    assert_true(r == 0 || r == -EBADMSG);
    assert_int_equal(r == 0, out.length > 0);
    return r == 0 ? json_loadb(out.data, out.length, 0, NULL) : NULL;
}

static void expect_answer(struct question question, const char *reply, const char *expected)
{
    json_auto_t *content = json_from(reply);
    json_auto_t *answer = answer_to(question, content);
    json_auto_t *wanted = expected ? json_from(expected) : NULL;
    assert_int_equal(answer != NULL, wanted != NULL);
    assert_true(!answer || json_equal(answer, wanted));
}

static void requests(void **state _unused_)
{
    static const struct {
        const char *body, *type, *reply, *content;
    } cases[] = {
        {"{'kind': 0, 'code': 'äb', 'cursor': 2, 'detail': 1}", "complete_request",
         "complete_reply", "{'code': 'äb', 'cursor_pos': 2}"},
        {"{'kind': 1, 'code': 'ab', 'cursor': 0, 'detail': 1}", "inspect_request", "inspect_reply",
         "{'code': 'ab', 'cursor_pos': 0, 'detail_level': 1}"},
        {"{'kind': 2, 'code': '', 'cursor': 0}", "is_complete_request", "is_complete_reply",
         "{'code': ''}"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        json_auto_t *body = json_from(cases[i].body);
        json_auto_t *expected = json_from(cases[i].content);
        struct question question;
        struct order order;
        struct ticket ticket = {.connection = 1, .tag = 2};
        assert_int_equal(order_read_question(ticket, body, &question, &order), 0);
        assert_ptr_equal(order.question, &question);
        assert_int_equal(order.timeout_ms, QUESTION_MILLISECONDS);
        assert_string_equal(question_request_type(&question), cases[i].type);
        assert_string_equal(question_reply_type(&question), cases[i].reply);
        json_auto_t *content = question_request(&question, order.code);
        assert_true(json_equal(content, expected));
    }
}

static void refused(void **state _unused_)
{
    static const char *const bad[] = {
        "{}",
        "{'kind': 3, 'code': '', 'cursor': 0}",
        "{'kind': -1, 'code': '', 'cursor': 0}",
        "{'kind': 0, 'cursor': 0}",
        "{'kind': 0, 'code': 7, 'cursor': 0}",
        "{'kind': 0, 'code': 'ab', 'cursor': 3}",
        "{'kind': 0, 'code': 'äb', 'cursor': 3}",
        "{'kind': 0, 'code': 'ab', 'cursor': -1}",
    };
    struct question question;
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        assert_int_equal(read_question(bad[i], &question), -EINVAL);
}

static void completions(void **state _unused_)
{
    struct question question = {.kind = QUESTION_COMPLETE, .length = 4, .cursor = 4};
    expect_answer(question,
                  "{'status': 'ok', 'matches': ['a', 'b'], 'cursor_start': 1, 'cursor_end': 4, "
                  "'metadata': {'x': [1]}, 'other': 1}",
                  "{'status': 'ok', 'matches': ['a', 'b'], 'cursor_start': 1, 'cursor_end': 4, "
                  "'metadata': {'x': [1]}, 'truncated': false}");
    expect_answer(question,
                  "{'status': 'ok', 'matches': ['a', 7, null, {}, 'b'], 'cursor_start': 4, "
                  "'cursor_end': 4, 'metadata': {'x': [1]}}",
                  "{'status': 'ok', 'matches': ['a', 'b'], 'cursor_start': 4, 'cursor_end': 4, "
                  "'metadata': {}, 'truncated': true}");
    static const char *const bad[] = {
        "{}",
        "{'status': 'error', 'matches': [], 'cursor_start': 0, 'cursor_end': 0}",
        "{'status': 7, 'matches': [], 'cursor_start': 0, 'cursor_end': 0}",
        "{'status': 'ok', 'matches': {}, 'cursor_start': 0, 'cursor_end': 0}",
        "{'status': 'ok', 'matches': [], 'cursor_start': -1, 'cursor_end': 0}",
        "{'status': 'ok', 'matches': [], 'cursor_start': 3, 'cursor_end': 2}",
        "{'status': 'ok', 'matches': [], 'cursor_start': 3, 'cursor_end': 5}",
        "{'status': 'ok', 'matches': [], 'cursor_start': '0', 'cursor_end': 0}",
        "{'status': 'ok', 'matches': [], 'cursor_end': 0}",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        expect_answer(question, bad[i], NULL);
    assert_null(answer_to(question, NULL));
}

static void amounts_are_bounded(void **state _unused_)
{
    struct question question = {.kind = QUESTION_COMPLETE};
    char longest[MAX_MATCH_BYTES + 2];
    memset(longest, 'x', sizeof longest);
    json_auto_t *matches = json_array();
    for (size_t i = 0; i < MAX_MATCHES; i++)
        assert_int_equal(
            json_array_append_new(matches, json_stringn(longest, MAX_MATCH_BYTES + (i == 0))), 0);
    json_auto_t *content = json_pack("{s:s, s:O, s:i, s:i}", "status", "ok", "matches", matches,
                                     "cursor_start", 0, "cursor_end", 0);
    json_auto_t *answer = answer_to(question, content);
    assert_int_equal(json_array_size(json_object_get(answer, "matches")), MAX_MATCHES - 1);
    assert_true(json_is_true(json_object_get(answer, "truncated")));

    assert_int_equal(json_array_set_new(matches, 0, json_string("first")), 0);
    assert_int_equal(json_array_append_new(matches, json_string("one too many")), 0);
    json_auto_t *full = answer_to(question, content);
    assert_int_equal(json_array_size(json_object_get(full, "matches")), MAX_MATCHES);
    assert_true(json_is_true(json_object_get(full, "truncated")));
}

static void large_metadata_are_left_out(void **state _unused_)
{
    struct question question = {.kind = QUESTION_COMPLETE};
    char *text = malloc(MAX_QUESTION_METADATA_BYTES);
    assert_non_null(text);
    memset(text, 'x', MAX_QUESTION_METADATA_BYTES);
    json_auto_t *content = json_pack("{s:s, s:[s], s:i, s:i, s:{s:s%}}", "status", "ok", "matches",
                                     "a", "cursor_start", 0, "cursor_end", 0, "metadata", "x", text,
                                     (size_t)MAX_QUESTION_METADATA_BYTES);
    json_auto_t *answer = answer_to(question, content);
    assert_int_equal(json_object_size(json_object_get(answer, "metadata")), 0);
    free(text);
}

static void inspections(void **state _unused_)
{
    struct question question = {.kind = QUESTION_INSPECT};
    const char *reply = "{'status': 'ok', 'found': true, 'data': {'text/plain': "
                        "'\\u001b[31mred\\u001b[0m'}, 'metadata': {}}";
    expect_answer(question, reply,
                  "{'status': 'ok', 'found': true, 'data': {'text/plain': 'red'}, 'metadata': {}, "
                  "'truncated': false}");
    question.colours = true;
    expect_answer(question, reply,
                  "{'status': 'ok', 'found': true, 'data': {'text/plain': "
                  "'\\u001b[31mred\\u001b[0m'}, 'metadata': {}, 'truncated': false}");
    expect_answer(question, "{'status': 'ok', 'found': false, 'data': {}, 'metadata': 7}",
                  "{'status': 'ok', 'found': false, 'data': {}, 'metadata': {}, 'truncated': "
                  "false}");
    expect_answer(question, "{'status': 'ok', 'found': true, 'data': {'a/b': 7, 'c/d': 'e'}}",
                  "{'status': 'ok', 'found': true, 'data': {'c/d': 'e'}, 'metadata': {}, "
                  "'truncated': true}");
    expect_answer(question, "{'status': 'ok', 'found': 'yes', 'data': {}}", NULL);
    expect_answer(question, "{'status': 'ok', 'found': true, 'data': []}", NULL);
    expect_answer(question, "{'status': 'error', 'found': true, 'data': {}}", NULL);
}

static void a_long_text_is_cut_between_characters(void **state _unused_)
{
    struct question question = {.kind = QUESTION_INSPECT};
    size_t length = MAX_INSPECTION_BYTES + 2;
    char *text = malloc(length);
    assert_non_null(text);
    for (size_t i = 0; i + 1 < length; i += 2)
        memcpy(text + i, i == 0 ? "ab" : "ä", 2);
    memmove(text, text + 1, length - 1); /* now a character lies across the limit */
    json_auto_t *content = json_pack("{s:s, s:b, s:{s:s%}}", "status", "ok", "found", 1, "data",
                                     "text/plain", text, length - 1);
    assert_non_null(content);
    json_auto_t *answer = answer_to(question, content);
    const json_t *plain = json_object_get(json_object_get(answer, "data"), "text/plain");
    assert_int_equal(json_string_length(plain), MAX_INSPECTION_BYTES - 1);
    assert_true(json_is_true(json_object_get(answer, "truncated")));
    free(text);
}

static void completeness(void **state _unused_)
{
    struct question question = {.kind = QUESTION_IS_COMPLETE};
    expect_answer(question, "{'status': 'incomplete', 'indent': '    '}",
                  "{'status': 'incomplete', 'indent': '    '}");
    expect_answer(question, "{'status': 'complete'}", "{'status': 'complete', 'indent': ''}");
    expect_answer(question, "{'status': 'invalid', 'indent': 7}",
                  "{'status': 'invalid', 'indent': ''}");
    expect_answer(question, "{'status': 'unknown'}", "{'status': 'unknown', 'indent': ''}");
    expect_answer(question, "{'status': 'ok'}", NULL);
    expect_answer(question, "{}", NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests),
        cmocka_unit_test(refused),
        cmocka_unit_test(completions),
        cmocka_unit_test(amounts_are_bounded),
        cmocka_unit_test(large_metadata_are_left_out),
        cmocka_unit_test(inspections),
        cmocka_unit_test(a_long_text_is_cut_between_characters),
        cmocka_unit_test(completeness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
