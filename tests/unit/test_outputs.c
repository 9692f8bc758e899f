#include "shim/outputs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "husk/limits.h"
#include "shim/answer.h"

/* Messages in, an answer out. */
struct collected {
    struct answer *answer;
    struct outputs *outputs;
};

static int make_with(void **state, bool colours)
{
    struct collected *collected = calloc(1, sizeof *collected);
    collected->answer = answer_new();
    collected->outputs = outputs_new(answer_recorder(collected->answer), colours);
    *state = collected;
    return 0;
}

static int make(void **state)
{
    return make_with(state, false);
}

static int drop(void **state)
{
    struct collected *collected = *state;
    outputs_free(collected->outputs);
    answer_free(collected->answer);
    free(collected);
    return 0;
}

static struct outputs *outputs_of(void **state)
{
    return ((struct collected *)*state)->outputs;
}

static int render_into(void **state, const struct verdict *verdict, struct buffer *out)
{
    struct collected *collected = *state;
    struct answer_frame frame = {.outputs = collected->outputs, .verdict = verdict};
    return answer_render(collected->answer, &frame, out);
}

/* `content` as JSON with ' for ". */
static json_t *quoted(const char *content)
{
    char *text = strdup(content);
    for (char *p = text; *p; p++)
        *p = *p == '\'' ? '"' : *p;
    json_t *value = json_loads(text, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    free(text);
    return value;
}

static void add(void **state, const char *type, const char *content)
{
    json_t *value = quoted(content);
    outputs_add(outputs_of(state), type, value);
    json_decref(value);
}

static void reply(void **state, const char *content)
{
    json_t *value = quoted(content);
    outputs_reply(outputs_of(state), value);
    json_decref(value);
}

static json_t *render_as(void **state, struct verdict verdict)
{
    struct buffer out = BUFFER_LIMITED(MAX_ANSWER_BYTES);
    outputs_close(outputs_of(state));
    assert_int_equal(render_into(state, &verdict, &out), 0);
    json_t *answer =
        json_loadb(out.data, out.length, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(answer);
    buffer_free(&out);
    return answer;
}

static json_t *render(void **state)
{
    return render_as(state, (struct verdict){.status = EXECUTION_OK, .duration_ms = 12});
}

static void expect(json_t *answer, const char *member, const char *value)
{
    json_t *expected = quoted(value);
    json_t *actual = json_object_get(answer, member);
    char *text = json_dumps(actual, JSON_ENCODE_ANY);
    if (!json_equal(actual, expected))
        fail_msg("%s is %s, not %s", member, text, value);
    free(text);
    json_decref(expected);
}

static void expect_results(void **state, const char *results)
{
    json_t *answer = render(state);
    expect(answer, "results", results);
    json_decref(answer);
}

static void nothing(void **state)
{
    json_t *answer = render(state);
    json_t *expected = quoted("{'stdout': '', 'stderr': '', 'error': null, 'error_value': null, "
                              "'traceback': null, 'results': [],"
                              " 'status': 'ok', 'state_lost': false, 'execution_count': null, "
                              "'duration_ms': 12, 'truncated': false}");
    assert_true(json_equal(answer, expected));
    json_decref(answer);
    json_decref(expected);
}

static void streams(void **state)
{
    add(state, "stream", "{'name': 'stdout', 'text': 'a'}");
    add(state, "stream", "{'name': 'stderr', 'text': 'e\\u0000'}");
    add(state, "stream", "{'name': 'stdout', 'text': '\u6b63'}");
    add(state, "execute_input", "{'code': 'x', 'execution_count': 3}");
    json_t *answer = render(state);
    expect(answer, "stdout", "'a\u6b63'");
    expect(answer, "stderr", "'e\\u0000'");
    expect(answer, "execution_count", "3");
    expect(answer, "truncated", "false");
    json_decref(answer);
}

static void long_stream(void **state)
{
    json_t *content = json_object();
    (void)json_object_set_new(content, "name", json_string("stdout"));
    char *line = calloc(1, 100001);
    memset(line, 'x', 100000);
    (void)json_object_set_new(content, "text", json_string(line));
    for (int i = 0; i < 1000; i++)
        outputs_add(outputs_of(state), "stream", content);
    json_decref(content);
    free(line);
    add(state, "stream", "{'name': 'stdout', 'text': 'the end'}");
    json_t *answer = render(state);
    json_t *text = json_object_get(answer, "stdout");
    assert_true(json_string_length(text) <= MAX_STREAM_BYTES);
    assert_true(json_string_length(text) > MAX_STREAM_BYTES - 256);
    assert_non_null(strstr(json_string_value(text), " bytes left out]\n"));
    const char *end = json_string_value(text) + json_string_length(text) - 7;
    assert_string_equal(end, "the end");
    expect(answer, "truncated", "true");
    json_decref(answer);
}

static void results(void **state)
{
    add(state, "display_data",
        "{'data': {'text/plain': '<Figure>', 'image/png': 'iVBOR/+=\\n'}, 'metadata': "
        "{'image/png': {'width': 7}}}");
    add(state, "execute_result",
        "{'data': {'text/plain': ['a\\n', 'b'], 'application/json': ['a', 1], 'x/y+json': null}, "
        "'execution_count': 5}");
    json_t *answer = render(state);
    expect(answer, "execution_count", "5");
    json_decref(answer);
    expect_results(
        state,
        "[{'type': 'text/plain', 'data': '<Figure>', 'output': 0},"
        " {'type': 'image/png', 'data': 'iVBOR/+=\\n', 'output': 0, 'metadata': {'width': 7}},"
        " {'type': 'text/plain', 'data': 'a\\nb', 'output': 1, 'main': true},"
        " {'type': 'application/json', 'data': ['a', 1], 'output': 1, 'main': true},"
        " {'type': 'x/y+json', 'data': null, 'output': 1, 'main': true}]");
}

static void updates(void **state)
{
    add(state, "display_data",
        "{'data': {'a/a': '1', 'b/b': '2'}, 'transient': {'display_id': 'x'}}");
    add(state, "display_data", "{'data': {'a/a': '3'}, 'transient': {'display_id': 'y'}}");
    add(state, "display_data", "{'data': {'a/a': '4'}, 'transient': {'display_id': 'x'}}");
    add(state, "update_display_data", "{'data': {'c/c': '5'}, 'transient': {'display_id': 'x'}}");
    add(state, "update_display_data",
        "{'data': {'c/c': '6'}, 'transient': {'display_id': 'unknown'}}");
    add(state, "update_display_data", "{'data': {'c/c': '7'}}");
    expect_results(
        state,
        "[{'type': 'c/c', 'data': '5', 'output': 0, 'display_id': 'x'},"
        " {'type': 'a/a', 'data': '3', 'output': 1, 'display_id': 'y'},"
        " {'type': 'c/c', 'data': '5', 'output': 2, 'display_id': 'x'},"
        " {'type': 'c/c', 'data': '6', 'output': 3, 'display_id': 'unknown', 'update': true}]");
    add(state, "update_display_data", "{'data': {}, 'transient': {'display_id': 'x'}}");
    add(state, "update_display_data",
        "{'data': {'c/c': '8'}, 'transient': {'display_id': 'unknown'}}");
    expect_results(
        state,
        "[{'type': 'a/a', 'data': '3', 'output': 1, 'display_id': 'y'},"
        " {'type': 'c/c', 'data': '8', 'output': 3, 'display_id': 'unknown', 'update': true}]");
}

/* One message must not make the shim render a thousand. */
static void one_id_for_many(void **state)
{
    for (size_t i = 0; i < MAX_RESULTS; i++)
        add(state, "display_data", "{'data': {'a/a': 'old'}, 'transient': {'display_id': 'x'}}");
    add(state, "update_display_data", "{'data': {'a/a': 'new'}, 'transient': {'display_id': 'x'}}");
    json_t *answer = render(state);
    const json_t *results = json_object_get(answer, "results");
    assert_int_equal(json_array_size(results), MAX_RESULTS);
    for (size_t i = 0; i < MAX_RESULTS; i++) {
        const json_t *data = json_object_get(json_array_get(results, i), "data");
        assert_string_equal(json_string_value(data), i < MAX_DISPLAYS_OF_ID ? "new" : "old");
    }
    json_decref(answer);
}

static void whole_text(void **state)
{
    static const char *const unusable[] = {
        "{'name': 'stdout'}", "{'name': 'stdout', 'path': 'a\\nb'}",
        "{'name': 'stdout', 'path': ''}", "{'path': 'x'}", "{'name': 'stdout', 'path': '\u00e9'}"};
    json_t *content = json_pack("{s:s, s:o}", "name", "stdout", "text", json_string(""));
    char *megabyte = calloc(1, MIB + 1);
    memset(megabyte, 'x', MIB);
    (void)json_object_set_new(content, "text", json_string(megabyte));
    for (int i = 0; i < 3; i++)
        outputs_add(outputs_of(state), "stream", content);
    for (size_t i = 0; i < sizeof unusable / sizeof unusable[0]; i++)
        add(state, "husk_whole_text", unusable[i]);
    json_t *answer = render(state);
    assert_non_null(strstr(json_string_value(json_object_get(answer, "stdout")), "left out]"));
    json_decref(answer);
    add(state, "husk_whole_text", "{'name': 'stdout', 'path': '.husk/stdout-1.txt'}");
    answer = render(state);
    assert_non_null(strstr(json_string_value(json_object_get(answer, "stdout")),
                           "left out; the whole text is in .husk/stdout-1.txt]\n"));
    json_decref(answer);
    json_decref(content);
    free(megabyte);
}

/* Our kernel says so when it had to leave something out. */
static void truncated_by_the_kernel(void **state)
{
    add(state, "display_data", "{'data': {'text/plain': 'note'}, 'husk_truncated': true}");
    json_t *answer = render(state);
    expect(answer, "truncated", "true");
    json_decref(answer);
}

static int make_coloured(void **state)
{
    return make_with(state, true);
}

static void colours_on_request(void **state)
{
    add(state, "error",
        "{'ename': '\\u001b[31mE', 'evalue': 'v', 'traceback': ['\\u001b[31ma', 'b']}");
    json_t *answer = render(state);
    expect(answer, "error", "'E'");
    expect(answer, "traceback", "'\\u001b[31ma\\nb'");
    json_decref(answer);
}

static void clearing(void **state)
{
    add(state, "stream", "{'name': 'stdout', 'text': 'a'}");
    add(state, "display_data", "{'data': {'a/a': '1'}, 'transient': {'display_id': 'x'}}");
    add(state, "clear_output", "{'wait': true}");
    json_t *answer = render(state);
    expect(answer, "stdout", "'a'");
    json_decref(answer);
    add(state, "stream", "{'name': 'stderr', 'text': 'b'}");
    answer = render(state);
    expect(answer, "stdout", "''");
    expect(answer, "stderr", "'b'");
    expect(answer, "results", "[]");
    json_decref(answer);
    add(state, "display_data", "{'data': {'a/a': '2'}}");
    add(state, "clear_output", "{'wait': false}");
    add(state, "display_data", "{'data': {'a/a': '3'}}");
    expect_results(state, "[{'type': 'a/a', 'data': '3', 'output': 0}]");
}

static void errors(void **state)
{
    add(state, "error",
        "{'ename': 'ZeroDivisionError', 'evalue': 'division by zero', 'traceback': "
        "['\\u001b[31mTraceback\\u001b[0m', 'line', 7, 'end']}");
    assert_true(outputs_has_error(outputs_of(state)));
    reply(state, "{'status': 'error', 'ename': 'Other', 'evalue': 'x', 'traceback': [], "
                 "'execution_count': 9}");
    json_t *answer = render_as(state, (struct verdict){.status = EXECUTION_ERROR});
    expect(answer, "error", "'ZeroDivisionError'");
    expect(answer, "error_value", "'division by zero'");
    expect(answer, "traceback", "'Traceback\\nline\\nend'");
    expect(answer, "execution_count", "9");
    expect(answer, "status", "'error'");
    json_decref(answer);

    answer = render_as(state, (struct verdict){.status = EXECUTION_TIMEOUT,
                                               .error = "TimeoutError",
                                               .error_value = "too slow",
                                               .state_lost = true});
    expect(answer, "error", "'TimeoutError'");
    expect(answer, "error_value", "'too slow'");
    expect(answer, "traceback", "'Traceback\\nline\\nend'");
    expect(answer, "state_lost", "true");
    json_decref(answer);
}

static void replies(void **state)
{
    static const struct {
        const char *content;
        const char *error;
    } cases[] = {
        {"{'status': 'ok'}", "null"},
        {"{'status': 'error', 'ename': 'E', 'evalue': 'v', 'traceback': ['t']}", "'E'"},
        {"{'status': 'error'}", "'Error'"},
        {"{'status': 'aborted'}", "'Aborted'"},
        {"{'status': 7}", "'NoReply'"},
        {"{}", "'NoReply'"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        drop(state);
        make(state);
        reply(state, cases[i].content);
        json_t *answer = render(state);
        expect(answer, "error", cases[i].error);
        json_decref(answer);
    }
    drop(state);
    make(state);
    outputs_reply(outputs_of(state), NULL);
    assert_false(outputs_has_error(outputs_of(state)));
    outputs_close(outputs_of(state));
    assert_true(outputs_has_error(outputs_of(state)));
}

static void long_errors(void **state)
{
    size_t size = 10 * MAX_TRACEBACK_BYTES;
    char *text = calloc(1, size + 1);
    for (size_t i = 0; i + 3 <= size; i += 3)
        memcpy(text + i, "\xe6\xad\xa3", 3);
    json_t *content = json_pack("{s:s, s:s, s:[s, s]}", "ename", text, "evalue", text, "traceback",
                                text, "the end");
    outputs_add(outputs_of(state), "error", content);
    json_decref(content);
    free(text);
    json_t *answer = render(state);
    assert_true(json_string_length(json_object_get(answer, "error")) <= MAX_ERROR_TEXT_BYTES);
    assert_true(json_string_length(json_object_get(answer, "error_value")) <= MAX_ERROR_TEXT_BYTES);
    json_t *traceback = json_object_get(answer, "traceback");
    assert_true(json_string_length(traceback) <= MAX_TRACEBACK_BYTES);
    assert_non_null(strstr(json_string_value(traceback), "\nthe end"));
    expect(answer, "truncated", "true");
    json_decref(answer);
}

static void add_large(void **state, size_t size, char filling)
{
    char *text = malloc(size + 1);
    memset(text, filling, size);
    text[size] = '\0';
    json_t *content = json_pack("{s:{s:s}}", "data", "text/plain", text);
    outputs_add(outputs_of(state), "display_data", content);
    json_decref(content);
    free(text);
}

static void large_results(void **state)
{
    add_large(state, MAX_RESULT_BYTES, 'x'); /* what is around it does not fit */
    expect_results(state, "[]");
    for (int i = 0; i < 5; i++)
        add_large(state, 10 * MIB, 'y');
    add(state, "display_data", "{'data': {'a/a': 'small'}}");
    json_t *answer = render(state);
    json_t *list = json_object_get(answer, "results");
    assert_int_equal(json_array_size(list), 3); /* two large ones and the small one */
    expect(json_array_get(list, 2), "data", "'small'");
    expect(answer, "truncated", "true");
    json_decref(answer);
}

/* Escapes make text longer: it is the length in the answer that is bounded. */
static void escapes_count(void **state)
{
    for (int i = 0; i < 3; i++)
        add_large(state, 4 * MIB, '\x01');
    json_t *answer = render(state);
    assert_int_equal(json_array_size(json_object_get(answer, "results")), 0);
    expect(answer, "truncated", "true");
    json_decref(answer);
}

static void many_results(void **state)
{
    for (int i = 0; i < MAX_RESULTS + 10; i++)
        add(state, "display_data", "{'data': {'a/a': '1'}}");
    json_t *answer = render(state);
    assert_int_equal(json_array_size(json_object_get(answer, "results")), MAX_RESULTS);
    expect(answer, "truncated", "true");
    json_decref(answer);
    add(state, "clear_output", "{}");
    add(state, "display_data", "{'data': {'a/a': '1'}}");
    expect_results(state, "[{'type': 'a/a', 'data': '1', 'output': 0}]");
}

/* No member may crash anything, whatever it is. */
static void wrong_types(void **state)
{
    static const char *const types[] = {
        "stream", "display_data",  "execute_result", "update_display_data",
        "error",  "execute_input", "unknown"};
    static const char *const members[] = {"name",      "text",           "data",  "metadata",
                                          "transient", "wait",           "ename", "evalue",
                                          "traceback", "execution_count"};
    static const char *const values[] = {"null",
                                         "7",
                                         "-1",
                                         "1.5",
                                         "'x'",
                                         "[]",
                                         "[[7], 'x']",
                                         "{}",
                                         "{'text/plain': {'a': 1}}",
                                         "{'': 7, 'display_id': []}"};
    for (size_t t = 0; t < ARRAY_LENGTH(types); t++) {
        for (size_t v = 0; v < ARRAY_LENGTH(values); v++) {
            json_t *content = json_object();
            for (size_t m = 0; m < ARRAY_LENGTH(members); m++)
                (void)json_object_set_new(content, members[m], quoted(values[v]));
            outputs_add(outputs_of(state), types[t], content);
            outputs_reply(outputs_of(state), content);
            json_decref(content);
            outputs_add(outputs_of(state), types[t], NULL);
        }
    }
    add(state, "stream", "{'name': 'stdout', 'text': 'still here'}");
    json_t *answer = render(state);
    expect(answer, "truncated", "true");
    assert_non_null(strstr(json_string_value(json_object_get(answer, "stdout")), "still here"));
    json_decref(answer);
}

static void no_room(void **state)
{
    add_large(state, 1000, 'x');
    struct verdict verdict = {.status = EXECUTION_OK};
    for (size_t room = 1; room < 1100; room += 7) {
        _cleanup_buffer_ struct buffer out = BUFFER_LIMITED(room);
        assert_true(render_into(state, &verdict, &out) < 0);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make, drop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing),
        TEST(streams),
        TEST(long_stream),
        TEST(results),
        TEST(updates),
        TEST(one_id_for_many),
        TEST(clearing),
        TEST(errors),
        TEST(replies),
        TEST(long_errors),
        TEST(large_results),
        TEST(escapes_count),
        TEST(many_results),
        TEST(wrong_types),
        TEST(no_room),
        TEST(whole_text),
        TEST(truncated_by_the_kernel),
        cmocka_unit_test_setup_teardown(colours_on_request, make_coloured, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
