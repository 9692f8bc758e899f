#include "unit.h"

#include "husk/limits.h"
#include "shim/bundle.h"

static const struct bundle_limits plenty = {.bytes = MAX_RESULTS_BYTES, .entries = MAX_RESULTS};

/* JSON with ' for ". A new reference. */
static json_t *quoted(const char *text)
{
    char *copy = strdup(text);
    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *json = json_loads(copy, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    free(copy);
    return json;
}

/* The entries of `display` with this content as an array, `content` is stolen. */
static json_t *render(struct display display, json_t *content, const struct bundle_limits *limits,
                      bool *ret_cut)
{
    _cleanup_buffer_ struct buffer out = {0};
    display.content = content;
    *ret_cut = false;
    assert_int_equal(buffer_append_text(&out, "["), 0);
    size_t count = bundle_render(&display, limits, &out, ret_cut);
    assert_true(out.length - 1 <= limits->bytes);
    assert_int_equal(out.limit, 0);
    assert_int_equal(buffer_append_text(&out, "]"), 0);
    json_t *entries =
        json_loadb(out.data, out.length, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
    if (!entries)
        fail_msg("no list of JSON (%zu bytes allowed): %.*s", limits->bytes, (int)out.length,
                 out.data);
    assert_int_equal(json_array_size(entries), count);
    json_decref(content);
    return entries;
}

static void expect(struct display display, const char *content, const char *expected, bool cut)
{
    bool is_cut;
    json_t *entries = render(display, quoted(content), &plenty, &is_cut);
    json_t *wanted = quoted(expected);
    char *text = json_dumps(entries, 0);
    if (!json_equal(entries, wanted))
        fail_msg("%s gives %s,\nnot %s", content, text, expected);
    assert_int_equal(is_cut, cut);
    free(text);
    json_decref(entries);
    json_decref(wanted);
}

static const struct display plain = {.number = 7};

static void entries(void **state)
{
    (void)state;
    expect(plain, "{'data': {'text/plain': 'x', 'image/png': 'AAAA'}}",
           "[{'type': 'text/plain', 'data': 'x', 'output': 7},"
           " {'type': 'image/png', 'data': 'AAAA', 'output': 7}]",
           false);
    expect(plain, "{'data': {}}", "[]", false);
    expect(plain, "{}", "[]", false);
    expect((struct display){.number = 0, .main = true, .id = "an \"id\"", .foreign = true},
           "{'data': {'a/a': ''}}",
           "[{'type': 'a/a', 'data': '', 'output': 0, 'main': true, 'display_id': 'an \\\"id\\\"', "
           "'update': true}]",
           false);
    /* That it replaces something is said by the event, not by its entries. */
    expect((struct display){.number = 0, .replaces = true}, "{'data': {'a/a': '1'}}",
           "[{'type': 'a/a', 'data': '1', 'output': 0}]", false);
    struct buffer none = {0};
    bool cut = false;
    assert_int_equal(bundle_render(&plain, &plenty, &none, &cut), 0);
    assert_int_equal(none.length, 0);
    assert_false(cut);
}

/* Of each type, and only if there is some. */
static void metadata(void **state)
{
    (void)state;
    expect(plain,
           "{'data': {'a/a': '1', 'b/b': '2', 'c/c': '3'},"
           " 'metadata': {'a/a': {'width': 5}, 'b/b': {}, 'c/c': 9, 'width': 6}}",
           "[{'type': 'a/a', 'data': '1', 'output': 7, 'metadata': {'width': 5}},"
           " {'type': 'b/b', 'data': '2', 'output': 7}, {'type': 'c/c', 'data': '3', 'output': 7}]",
           false);
    expect(plain, "{'data': {'a/a': '1'}, 'metadata': []}",
           "[{'type': 'a/a', 'data': '1', 'output': 7}]", false);
}

static void json_types_keep_their_data(void **state)
{
    (void)state;
    static const char *const types[] = {"application/json", "application/geo+json",
                                        "application/vnd.vega.v5+json"};
    static const char *const values[] = {"{'a': [1, null]}", "[1, 'x']", "'text'", "5", "null"};
    char content[200], expected[200];
    for (size_t t = 0; t < ARRAY_LENGTH(types); t++) {
        for (size_t v = 0; v < ARRAY_LENGTH(values); v++) {
            (void)snprintf(content, sizeof content, "{'data': {'%s': %s}}", types[t], values[v]);
            (void)snprintf(expected, sizeof expected, "[{'type': '%s', 'data': %s, 'output': 7}]",
                           types[t], values[v]);
            expect(plain, content, expected, false);
        }
    }
}

static void text_may_come_as_lines(void **state)
{
    (void)state;
    expect(plain, "{'data': {'a/a': ['x\\n', '', 'y\\u0000']}}",
           "[{'type': 'a/a', 'data': 'x\\ny\\u0000', 'output': 7}]", false);
    expect(plain, "{'data': {'a/a': []}}", "[{'type': 'a/a', 'data': '', 'output': 7}]", false);
}

/* What is not as it should be is left out, the rest is not. */
static void odd_data(void **state)
{
    (void)state;
    static const char *const values[] = {"5", "null", "true", "{}", "['x', 5]", "[['x']]"};
    char content[200];
    for (size_t i = 0; i < ARRAY_LENGTH(values); i++) {
        (void)snprintf(content, sizeof content, "{'data': {'a/a': %s, 'b/b': '2', '+json': %s}}",
                       values[i], values[i]);
        expect(plain, content, "[{'type': 'b/b', 'data': '2', 'output': 7}]", true);
    }
    expect(plain, "{'data': {'': 'x', 'b/b': '2'}}", "[{'type': 'b/b', 'data': '2', 'output': 7}]",
           true);
    expect(plain, "{'data': 'x'}", "[]", false);
}

static void long_types(void **state)
{
    (void)state;
    char type[257] = "";
    for (size_t length = 255; length <= 256; length++) {
        memset(type, 't', length);
        bool cut;
        json_t *list = render(plain, json_pack("{s:{s:s}}", "data", type, "x"), &plenty, &cut);
        assert_int_equal(json_array_size(list), length == 255);
        assert_int_equal(cut, length == 256);
        json_decref(list);
    }
}

static void escapes(void **state)
{
    (void)state;
    struct bundle_limits ascii = plenty;
    ascii.ascii = true;
    for (int i = 0; i < 2; i++) {
        struct buffer out = {0};
        bool cut = false;
        json_t *content = quoted("{'data': {'a/a': '\xe2\x80\xa8\xf0\x9f\x98\x80'}}");
        struct display display = {.content = content};
        assert_int_equal(bundle_render(&display, i ? &ascii : &plenty, &out, &cut), 1);
        const char *text = buffer_text(&out);
        assert_string_equal(
            text, i ? "{\"type\":\"a/a\",\"data\":\"\\u2028\\uD83D\\uDE00\",\"output\":0}"
                    : "{\"type\":\"a/a\",\"data\":\"\xe2\x80\xa8\xf0\x9f\x98\x80\",\"output\":0}");
        buffer_free(&out);
        json_decref(content);
    }
}

/* --- limits --------------------------------------------------------------------------------- */

static void not_more_entries(void **state)
{
    (void)state;
    struct bundle_limits limits = plenty;
    for (size_t most = 0; most <= 4; most++) {
        bool cut;
        limits.entries = most;
        json_t *list =
            render(plain, quoted("{'data': {'a/a': '1', 'b/b': '2', 'c/c': '3'}}"), &limits, &cut);
        assert_int_equal(json_array_size(list), most < 3 ? most : 3);
        assert_int_equal(cut, most < 3);
        json_decref(list);
    }
}

/* To the byte, commas included; a small entry behind one that did not fit is taken. */
static void not_more_bytes(void **state)
{
    (void)state;
    static const char text[] = "{'data': {'a/a': '1', 'b/b': '22', 'c/c': '3'}}";
    size_t small = strlen("{\"type\":\"a/a\",\"data\":\"1\",\"output\":7}");
    struct bundle_limits limits = plenty;
    for (size_t bytes = 0; bytes < 3 * small + 10; bytes++) {
        bool cut;
        limits.bytes = bytes;
        json_t *list = render(plain, quoted(text), &limits, &cut);
        size_t whole = 3 * small + 1 + 2, two = 2 * small + 1;
        size_t count = bytes >= whole ? 3 : bytes >= two ? 2 : bytes >= small;
        assert_int_equal(json_array_size(list), count);
        assert_int_equal(cut, count < 3);
        if (bytes == two) {
            const json_t *second = json_object_get(json_array_get(list, 1), "type");
            assert_string_equal(json_string_value(second), "c/c");
        }
        json_decref(list);
    }
}

/* One entry has a limit of its own, which counts what is written and not what was meant. */
static void large_entries(void **state)
{
    (void)state;
    size_t around = strlen("{\"type\":\"a/a\",\"data\":\"\",\"output\":7}");
    char *text = malloc(MAX_RESULT_BYTES);
    assert_non_null(text);
    memset(text, 'x', MAX_RESULT_BYTES);
    for (size_t more = 0; more < 2; more++) {
        bool cut;
        size_t length = MAX_RESULT_BYTES - around + more;
        json_t *content = json_pack("{s:{s:s%, s:s}}", "data", "a/a", text, length, "b/b", "2");
        json_t *list = render(plain, content, &plenty, &cut);
        assert_int_equal(json_array_size(list), 2 - more);
        assert_int_equal(cut, more == 1);
        json_decref(list);
    }
    bool cut;
    memset(text, '\x01', MAX_RESULT_BYTES / 4); /* \u0001 each */
    json_t *content = json_pack("{s:{s:s%}}", "data", "a/a", text, (size_t)(MAX_RESULT_BYTES / 4));
    json_t *list = render(plain, content, &plenty, &cut);
    assert_int_equal(json_array_size(list), 0);
    assert_true(cut);
    json_decref(list);
    /* As lines. */
    memset(text, 'x', MAX_RESULT_BYTES);
    content = json_pack("{s:{s:[s%, s%]}}", "data", "a/a", text, (size_t)MAX_RESULT_BYTES - 1, text,
                        (size_t)2);
    list = render(plain, content, &plenty, &cut);
    assert_int_equal(json_array_size(list), 0);
    assert_true(cut);
    json_decref(list);
    free(text);
}

/* jansson goes on when the key of an object does not fit. */
static void large_keys(void **state)
{
    (void)state;
    bool cut;
    char *key = malloc(MAX_RESULT_BYTES + 1);
    assert_non_null(key);
    memset(key, 'k', MAX_RESULT_BYTES);
    key[MAX_RESULT_BYTES] = '\0';
    json_t *content =
        json_pack("{s:{s:{s:i}, s:s}}", "data", "application/json", key, 1, "b/b", "2");
    json_t *list = render(plain, content, &plenty, &cut);
    assert_int_equal(json_array_size(list), 1);
    assert_true(cut);
    json_decref(list);
    free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries),
        cmocka_unit_test(metadata),
        cmocka_unit_test(json_types_keep_their_data),
        cmocka_unit_test(text_may_come_as_lines),
        cmocka_unit_test(odd_data),
        cmocka_unit_test(long_types),
        cmocka_unit_test(escapes),
        cmocka_unit_test(not_more_entries),
        cmocka_unit_test(not_more_bytes),
        cmocka_unit_test(large_entries),
        cmocka_unit_test(large_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
