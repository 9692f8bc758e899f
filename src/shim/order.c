#include "shim/order.h"

#include <errno.h>
#include <string.h>

#include "base/id.h"
#include "husk/limits.h"

static int read_input(const json_t *body, struct order *order)
{
    json_t *input = json_object_get(body, "stdin");
    const char *text = json_string_value(input);
    if (!input)
        return 0;
    if (text && strcmp(text, "ask") == 0) {
        order->input = INPUT_ASK;
        return 0;
    }
    size_t i;
    json_t *line;
    json_array_foreach(input, i, line)
    {
        if (!json_is_string(line))
            return -EINVAL;
    }
    order->input = INPUT_GIVEN;
    order->lines = input;
    return json_is_array(input) ? 0 : -EINVAL;
}

static int read_detach(const json_t *body, struct order *order)
{
    struct id id;
    order->execution_id = json_string_value(json_object_get(body, "detach"));
    if (!order->execution_id)
        return 0;
    return order->streams ? -EINVAL : id_parse(order->execution_id, &id);
}

int tool_order_read(const json_t *body, struct tool_order *ret)
{
    const json_t *tool = json_object_get(body, "mcp");
    struct id id;
    *ret = (struct tool_order){0};
    if (!tool)
        return 0;
    *ret = (struct tool_order){
        .sandbox = json_string_value(json_object_get(tool, "sandbox")),
        .note = json_string_value(json_object_get(tool, "note")),
        .links = json_is_true(json_object_get(tool, "links")),
        .progress = json_is_true(json_object_get(tool, "progress")),
        .small = json_is_true(json_object_get(tool, "small")),
    };
    return ret->sandbox ? id_parse(ret->sandbox, &id) : -EINVAL;
}

int order_read_question(struct ticket ticket, const json_t *body, struct question *question,
                        struct order *ret)
{
    int r = question_read(body, question);
    if (r == 0)
        *ret = (struct order){.ticket = ticket,
                              .code = json_object_get(body, "code"),
                              .colours = question->colours,
                              .timeout_ms = QUESTION_MILLISECONDS,
                              .question = question};
    return r;
}

int order_read(struct ticket ticket, const json_t *body, struct order *ret)
{
    struct order order = {.ticket = ticket,
                          .code = json_object_get(body, "code"),
                          .env = json_object_get(body, "env"),
                          .colours = json_is_true(json_object_get(body, "colors")),
                          .auto_install = json_is_true(json_object_get(body, "auto_install"))};
    json_int_t timeout = json_integer_value(json_object_get(body, "timeout_ms"));
    if (!json_is_string(order.code) || json_string_length(order.code) > MAX_CODE_BYTES ||
        timeout <= 0 || timeout > (json_int_t)MAX_TIMEOUT_SECONDS * 1000)
        return -EINVAL;
    if ((order.env && !json_is_object(order.env)) || read_input(body, &order) < 0 ||
        stream_format_read(json_object_get(body, "stream"), &order.streams, &order.format) < 0 ||
        read_detach(body, &order) < 0 || tool_order_read(body, &order.tool) < 0 ||
        (order.tool.sandbox && (order.streams || order.execution_id)))
        return -EINVAL;
    order.timeout_ms = (uint64_t)timeout;
    *ret = order;
    return 0;
}
