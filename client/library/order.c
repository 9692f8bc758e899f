#include "library/order.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "library/complaint.h"

void order_begin(struct order *order, struct husk_error *error)
{
    *order = (struct order){.object = json_object(), .error = error};
    if (!order->object)
        order->result = complain_memory(error);
}

void order_put(struct order *order, const char *key, json_t *value)
{
    if (order->result < 0)
        json_decref(value);
    else if (json_object_set_new(order->object, key, value) < 0)
        order->result = complain_memory(order->error);
}

static bool is_text(struct order *order, const char *key, const char *data, size_t length)
{
    if (order->result == 0 && !utf8_valid(data, length))
        order->result = complain(order->error, HUSK_ERROR_ARGUMENT,
                                 "%s is not valid UTF-8. Convert it first.", key);
    return order->result == 0;
}

void order_put_bytes(struct order *order, const char *key, const char *data, size_t length)
{
    if (is_text(order, key, data, length))
        order_put(order, key, json_stringn_nocheck(data, length));
}

void order_put_text(struct order *order, const char *key, const char *text)
{
    if (text)
        order_put_bytes(order, key, text, strlen(text));
}

void order_put_number(struct order *order, const char *key, uint64_t number)
{
    if (number > INT64_MAX && order->result == 0)
        order->result =
            complain(order->error, HUSK_ERROR_ARGUMENT, "%s is far too large a number.", key);
    else if (number > 0)
        order_put(order, key, json_integer((json_int_t)number));
}

void order_put_real(struct order *order, const char *key, double number)
{
    if (order->result < 0 || number == 0)
        return;
    if (!isfinite(number) || number < 0)
        order->result =
            complain(order->error, HUSK_ERROR_ARGUMENT, "%s must be a positive number.", key);
    else
        order_put(order, key, json_real(number));
}

void order_put_flag(struct order *order, const char *key, bool flag)
{
    if (flag)
        order_put(order, key, json_true());
}

static bool missing(struct order *order, const char *key, const void *value)
{
    if (!value && order->result == 0)
        order->result =
            complain(order->error, HUSK_ERROR_ARGUMENT, "%s has an entry that is NULL.", key);
    return order->result < 0;
}

void order_put_list(struct order *order, const char *key, const char *const *texts, size_t count)
{
    if (count == 0 || order->result < 0)
        return;
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        if (missing(order, key, texts ? texts[i] : NULL) ||
            !is_text(order, key, texts[i], strlen(texts[i])))
            break;
        if (json_array_append_new(list, json_string_nocheck(texts[i])) < 0) {
            order->result = complain_memory(order->error);
            break;
        }
    }
    order_put(order, key, list);
}

void order_put_variables(struct order *order, const struct husk_variable *variables, size_t count)
{
    if (count == 0 || order->result < 0)
        return;
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++) {
        if (missing(order, "variables", variables ? variables[i].name : NULL) ||
            missing(order, "variables", variables[i].value) ||
            !is_text(order, "variables", variables[i].name, strlen(variables[i].name)) ||
            !is_text(order, "variables", variables[i].value, strlen(variables[i].value)))
            break;
        if (json_object_set_new_nocheck(object, variables[i].name,
                                        json_string_nocheck(variables[i].value)) < 0) {
            order->result = complain_memory(order->error);
            break;
        }
    }
    order_put(order, "env", object);
}

int order_text(struct order *order, char **ret)
{
    char *text = order->result == 0 ? json_dumps(order->object, JSON_COMPACT) : NULL;
    json_decref(order->object);
    order->object = NULL;
    if (order->result == 0 && !text)
        order->result = complain_memory(order->error);
    if (order->result == 0)
        *ret = text;
    return order->result;
}
