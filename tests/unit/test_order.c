#include "unit.h"

#include "husk/limits.h"
#include "shim/order.h"

#define ID "0b5a7e5e-0000-4000-8000-000000000001"

static const struct ticket ticket = {.connection = 3, .tag = 4};

/* `text` is JSON with ' for "; what was read borrows from *ret_body. */
static int read_order(const char *text, json_t **ret_body, struct order *ret)
{
    char quoted[512];
    (void)snprintf(quoted, sizeof quoted, "%s", text);
    for (char *c = quoted; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    *ret_body = json_loads(quoted, JSON_ALLOW_NUL, NULL);
    assert_non_null(*ret_body);
    return order_read(ticket, *ret_body, ret);
}

static void least(void **state)
{
    (void)state;
    json_auto_t *body = NULL;
    struct order order;
    assert_int_equal(read_order("{'code': '1', 'timeout_ms': 1}", &body, &order), 0);
    assert_true(same_ticket(order.ticket, ticket));
    assert_string_equal(json_string_value(order.code), "1");
    assert_int_equal(order.timeout_ms, 1);
    assert_null(order.env);
    assert_null(order.lines);
    assert_null(order.execution_id);
    assert_false(order.colours);
    assert_false(order.streams);
    assert_int_equal(order.input, INPUT_NONE);
}

static void everything(void **state)
{
    (void)state;
    json_t *body;
    struct order order;
    assert_int_equal(read_order("{'code': '', 'timeout_ms': 86400000, 'env': {'A': 'b'}, 'colors': "
                                "true, 'stdin': ['x', ''], 'stream': 'ndjson'}",
                                &body, &order),
                     0);
    assert_int_equal(order.timeout_ms, 86400000);
    assert_string_equal(json_string_value(json_object_get(order.env, "A")), "b");
    assert_true(order.colours);
    assert_int_equal(order.input, INPUT_GIVEN);
    assert_int_equal(json_array_size(order.lines), 2);
    assert_true(order.streams);
    assert_int_equal(order.format, STREAM_NDJSON);
    json_decref(body);
    assert_int_equal(read_order("{'code': '', 'timeout_ms': 5, 'colors': false, 'stdin': 'ask', "
                                "'stream': 'sse'}",
                                &body, &order),
                     0);
    assert_false(order.colours);
    assert_int_equal(order.input, INPUT_ASK);
    assert_null(order.lines);
    assert_true(order.streams);
    assert_int_equal(order.format, STREAM_SSE);
    json_decref(body);
    assert_int_equal(
        read_order("{'code': '', 'timeout_ms': 5, 'stdin': [], 'detach': '" ID "'}", &body, &order),
        0);
    assert_int_equal(order.input, INPUT_GIVEN);
    assert_int_equal(json_array_size(order.lines), 0);
    assert_false(order.streams);
    assert_string_equal(order.execution_id, ID);
    json_decref(body);
}

/* Nothing is half taken. */
static void refused(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{}",
        "[]",
        "{'timeout_ms': 1}",
        "{'code': null, 'timeout_ms': 1}",
        "{'code': 5, 'timeout_ms': 1}",
        "{'code': ['1'], 'timeout_ms': 1}",
        "{'code': '1'}",
        "{'code': '1', 'timeout_ms': 0}",
        "{'code': '1', 'timeout_ms': -1}",
        "{'code': '1', 'timeout_ms': 86400001}",
        "{'code': '1', 'timeout_ms': 9223372036854775807}",
        "{'code': '1', 'timeout_ms': 1.5}",
        "{'code': '1', 'timeout_ms': '1'}",
        "{'code': '1', 'timeout_ms': 1, 'env': []}",
        "{'code': '1', 'timeout_ms': 1, 'env': 'A=b'}",
        "{'code': '1', 'timeout_ms': 1, 'stdin': 'Ask'}",
        "{'code': '1', 'timeout_ms': 1, 'stdin': ''}",
        "{'code': '1', 'timeout_ms': 1, 'stdin': 5}",
        "{'code': '1', 'timeout_ms': 1, 'stdin': null}",
        "{'code': '1', 'timeout_ms': 1, 'stdin': {}}",
        "{'code': '1', 'timeout_ms': 1, 'stdin': ['a', null]}",
        "{'code': '1', 'timeout_ms': 1, 'stdin': [['a']]}",
        "{'code': '1', 'timeout_ms': 1, 'stream': ''}",
        "{'code': '1', 'timeout_ms': 1, 'stream': 'SSE'}",
        "{'code': '1', 'timeout_ms': 1, 'stream': 'ndjson '}",
        "{'code': '1', 'timeout_ms': 1, 'detach': ''}",
        "{'code': '1', 'timeout_ms': 1, 'detach': 'true'}",
        "{'code': '1', 'timeout_ms': 1, 'detach': '" ID "0'}",
        "{'code': '1', 'timeout_ms': 1, 'detach': '" ID "', 'stream': 'sse'}",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(bodies); i++) {
        json_auto_t *body = NULL;
        struct order order = {.timeout_ms = 77};
        if (read_order(bodies[i], &body, &order) != -EINVAL)
            fail_msg("%s is taken", bodies[i]);
        assert_int_equal(order.timeout_ms, 77);
        assert_null(order.code);
    }
    struct order order;
    assert_int_equal(order_read(ticket, NULL, &order), -EINVAL);
}

static void length_of_code(void **state)
{
    (void)state;
    char *code = malloc(MAX_CODE_BYTES + 1);
    assert_non_null(code);
    memset(code, '\0', MAX_CODE_BYTES + 1);
    for (int more = 0; more < 2; more++) {
        json_auto_t *body = json_pack("{s:s%, s:i}", "code", code, (size_t)(MAX_CODE_BYTES + more),
                                      "timeout_ms", 1);
        struct order order;
        assert_int_equal(order_read(ticket, body, &order), more ? -EINVAL : 0);
        if (!more)
            assert_int_equal(json_string_length(order.code), MAX_CODE_BYTES);
    }
    free(code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(least),
        cmocka_unit_test(everything),
        cmocka_unit_test(refused),
        cmocka_unit_test(length_of_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
