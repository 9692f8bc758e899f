/* What SHIM_COMMAND may ask for. */
#include "unit.h"

#include "husk/limits.h"
#include "shim/command_order.h"

#define ID   "0b5a7e5e-0000-4000-8000-000000000001"
#define HEAD "{'id': '" ID "', 'timeout_ms': 1, "

static const struct ticket ticket = {.connection = 3, .tag = 4};

/* `text` is JSON with ' for "; what was read borrows from *ret_body. */
static int read_order(const char *text, json_t **ret_body, struct command_order *ret)
{
    char quoted[512];
    (void)snprintf(quoted, sizeof quoted, "%s", text);
    for (char *c = quoted; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    *ret_body = json_loads(quoted, JSON_ALLOW_NUL, NULL);
    assert_non_null(*ret_body);
    return command_order_read(ticket, *ret_body, ret);
}

static void least(void **state)
{
    (void)state;
    json_auto_t *body = NULL;
    struct command_order order;
    assert_int_equal(read_order(HEAD "'command': 'ls'}", &body, &order), 0);
    assert_true(same_ticket(order.ticket, ticket));
    assert_string_equal(order.id, ID);
    assert_int_equal(command_order_steps(&order), 1);
    assert_string_equal(json_string_value(command_order_step(&order, 0)), "ls");
    assert_int_equal(order.timeout_ms, 1);
    assert_null(order.steps);
    assert_null(order.directory);
    assert_null(order.env);
    assert_null(order.input);
    assert_false(order.streams);
    assert_false(order.detach);
}

static void everything(void **state)
{
    (void)state;
    json_auto_t *body = NULL;
    struct command_order order;
    assert_int_equal(read_order(HEAD "'commands': ['a', ['b', '']], 'cwd': 'c', 'env': {'D': 'e'}, "
                                     "'stdin': 'f\\u0000', 'stream': 'ndjson', 'detach': false}",
                                &body, &order),
                     0);
    assert_int_equal(command_order_steps(&order), 2);
    assert_int_equal(json_array_size(command_order_step(&order, 1)), 2);
    assert_string_equal(order.directory, "c");
    assert_int_equal(json_object_size(order.env), 1);
    assert_int_equal(json_string_length(order.input), 2);
    assert_true(order.streams);
    assert_int_equal(order.format, STREAM_NDJSON);
}

static void refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "{}",
        "{'id': '" ID "', 'command': 'ls'}",
        "{'id': 'x', 'timeout_ms': 1, 'command': 'ls'}",
        "{'timeout_ms': 1, 'command': 'ls'}",
        "{'id': '" ID "', 'timeout_ms': 0, 'command': 'ls'}",
        "{'id': '" ID "', 'timeout_ms': 86400001, 'command': 'ls'}",
        HEAD "'command': 5}",
        HEAD "'command': []}",
        HEAD "'command': ['']}",
        HEAD "'command': ['a', 5]}",
        HEAD "'command': 'a\\u0000b'}",
        HEAD "'command': ['a', 'b\\u0000']}",
        HEAD "'commands': []}",
        HEAD "'commands': ['a', 5]}",
        HEAD "'commands': 'a'}",
        HEAD "'command': 'a', 'cwd': ''}",
        HEAD "'command': 'a', 'cwd': 5}",
        HEAD "'command': 'a', 'cwd': 'x\\u0000'}",
        HEAD "'command': 'a', 'env': []}",
        HEAD "'command': 'a', 'stdin': []}",
        HEAD "'command': 'a', 'stream': 'xml'}",
        HEAD "'command': 'a', 'stream': 'sse', 'detach': true}",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        json_auto_t *body = NULL;
        struct command_order order;
        assert_int_equal(read_order(bad[i], &body, &order), -EINVAL);
    }
}

/* `count` arguments of `length` bytes. */
static int with_arguments(size_t count, size_t length)
{
    struct command_order order;
    char *text = calloc(1, length + 1);
    memset(text, 'x', length);
    json_t *arguments = json_array();
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(arguments, json_string(text));
    json_auto_t *body =
        json_pack("{s:s, s:i, s:o}", "id", ID, "timeout_ms", 1, "command", arguments);
    free(text);
    return command_order_read(ticket, body, &order);
}

static void of_a_tool(void **state)
{
    (void)state;
    struct command_order order;
    json_t *tool = json_pack("{s:s, s:b}", "sandbox", ID, "links", 1);
    json_auto_t *body =
        json_pack("{s:s, s:i, s:s, s:o}", "id", ID, "timeout_ms", 1, "command", "ls", "mcp", tool);
    assert_int_equal(command_order_read(ticket, body, &order), 0);
    assert_string_equal(order.tool.sandbox, ID);
    assert_true(order.tool.links);
    assert_false(order.tool.progress);
    (void)json_object_set_new(body, "detach", json_true());
    assert_int_equal(command_order_read(ticket, body, &order), -EINVAL);
    (void)json_object_del(body, "detach");
    (void)json_object_set_new(tool, "sandbox", json_string("../x"));
    assert_int_equal(command_order_read(ticket, body, &order), -EINVAL);
}

static void bounds(void **state)
{
    (void)state;
    assert_int_equal(with_arguments(MAX_COMMAND_ARGUMENTS, 1), 0);
    assert_int_equal(with_arguments(MAX_COMMAND_ARGUMENTS + 1, 1), -EINVAL);
    assert_int_equal(with_arguments(2, MAX_COMMAND_BYTES / 2 - 1), 0);
    assert_int_equal(with_arguments(2, MAX_COMMAND_BYTES / 2), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(least),     cmocka_unit_test(everything), cmocka_unit_test(refused),
        cmocka_unit_test(of_a_tool), cmocka_unit_test(bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
