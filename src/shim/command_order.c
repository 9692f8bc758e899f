#include "shim/command_order.h"

#include <errno.h>
#include <string.h>

#include "base/id.h"
#include "husk/limits.h"

/* A string of the system: without NUL. */
static bool is_plain(const json_t *value, size_t limit)
{
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) && strlen(text) <= limit;
}

static bool is_step(const json_t *step)
{
    size_t i, bytes = 0;
    json_t *argument;
    if (json_is_string(step))
        return is_plain(step, MAX_COMMAND_BYTES);
    json_array_foreach(step, i, argument)
    {
        if (!is_plain(argument, MAX_COMMAND_BYTES))
            return false;
        bytes += json_string_length(argument) + 1;
    }
    return json_is_array(step) && i > 0 && i <= MAX_COMMAND_ARGUMENTS &&
           bytes <= MAX_COMMAND_BYTES && json_string_length(json_array_get(step, 0)) > 0;
}

static bool are_steps(const struct command_order *order)
{
    size_t count = command_order_steps(order);
    for (size_t i = 0; i < count; i++) {
        if (!is_step(command_order_step(order, i)))
            return false;
    }
    return count > 0 && count <= MAX_COMMAND_STEPS;
}

size_t command_order_steps(const struct command_order *order)
{
    return order->steps ? json_array_size(order->steps) : 1;
}

const json_t *command_order_step(const struct command_order *order, size_t index)
{
    return order->steps ? json_array_get(order->steps, index) : order->single;
}

int command_order_read(struct ticket ticket, const json_t *body, struct command_order *ret)
{
    const json_t *directory = json_object_get(body, "cwd");
    json_int_t timeout = json_integer_value(json_object_get(body, "timeout_ms"));
    struct command_order order = {
        .ticket = ticket,
        .id = json_string_value(json_object_get(body, "id")),
        .steps = json_object_get(body, "commands"),
        .single = json_object_get(body, "command"),
        .timeout_ms = (uint64_t)timeout,
        .directory = json_string_value(directory),
        .env = json_object_get(body, "env"),
        .input = json_object_get(body, "stdin"),
        .detach = json_is_true(json_object_get(body, "detach")),
    };
    struct id id;
    if (!order.id || id_parse(order.id, &id) < 0 || timeout <= 0 ||
        timeout > (json_int_t)MAX_TIMEOUT_SECONDS * 1000 || !are_steps(&order) ||
        (directory && (!is_plain(directory, MAX_DIRECTORY_BYTES) || !*order.directory)) ||
        (order.env && !json_is_object(order.env)) ||
        (order.input &&
         (!json_is_string(order.input) || json_string_length(order.input) > MAX_STDIN_BYTES)) ||
        stream_format_read(json_object_get(body, "stream"), &order.streams, &order.format) < 0 ||
        (order.detach && order.streams) || tool_order_read(body, &order.tool) < 0 ||
        (order.tool.sandbox && (order.streams || order.detach)))
        return -EINVAL;
    *ret = order;
    return 0;
}
