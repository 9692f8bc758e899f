#include "library/reading.h"

#include <limits.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "husk/limits.h"
#include "library/complaint.h"
#include "library/gift.h"

/* --- failing ------------------------------------------------------------------------------------ */

int reading_fail(struct reading *reading, const char *what, const char *fault)
{
    if (reading->result < 0)
        return reading->result;
    reading->result = complain(reading->error, HUSK_ERROR_ANSWER,
                               "The answer is not one of Husk: %s %s.", what, fault);
    if (reading->error)
        reading->error->http_status = reading->http_status;
    return reading->result;
}

int reading_fail_memory(struct reading *reading)
{
    if (reading->result == 0)
        reading->result = complain_memory(reading->error);
    return reading->result;
}

static void fail_field(struct reading *reading, const char *key, const char *fault)
{
    char what[80];
    (void)snprintf(what, sizeof what, "the field '%.60s'", key);
    (void)reading_fail(reading, what, fault);
}

bool reading_is_object(struct reading *reading, const json_t *json, const char *what)
{
    if (!json_is_object(json))
        (void)reading_fail(reading, what, "is not an object");
    return json_is_object(json);
}

/* --- parsing ------------------------------------------------------------------------------------ */

/* How many values the text can have at most: each but the first follows one of these. Strings are counted too, as if they were
 * not; a bound that texts reach only if they are made for it. */
static bool too_many_values(const char *text, size_t length)
{
    size_t count = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (c == '"')
            quoted = !quoted;
        else if (quoted && c == '\\')
            i++;
        else if (!quoted)
            count += c == ',' || c == '[' || c == '{' || c == ':';
    }
    return count > CLIENT_JSON_VALUES;
}

json_t *reading_parse(struct reading *reading, const char *text, size_t length)
{
    json_error_t why = {.line = -1};
    if (reading->result < 0)
        return NULL;
    if (too_many_values(text, length)) {
        (void)reading_fail(reading, "it", "has too many values");
        return NULL;
    }
    json_t *json = json_loadb(text, length, JSON_ALLOW_NUL, &why);
    /* Of a fault in the text jansson says something; of memory that is out only sometimes nothing. */
    if (!json && !*why.text)
        (void)reading_fail_memory(reading);
    else if (!json)
        (void)reading_fail(reading, "it", "is not JSON, or was damaged on its way");
    else if (gift_take_json(reading->gift, json) < 0)
        (void)reading_fail_memory(reading);
    return reading->result == 0 ? json : NULL;
}

/* --- fields ------------------------------------------------------------------------------------- */

/* NULL: absent, null, or something has failed before. */
static json_t *field(const struct reading *reading, const json_t *object, const char *key)
{
    json_t *value = reading->result == 0 ? json_object_get(object, key) : NULL;
    return json_is_null(value) ? NULL : value;
}

static json_t *string_field(struct reading *reading, const json_t *object, const char *key)
{
    json_t *value = field(reading, object, key);
    if (value && !json_is_string(value)) {
        fail_field(reading, key, "is not a text");
        return NULL;
    }
    return value;
}

static const char *without_nul(struct reading *reading, const json_t *string)
{
    static const char replacement[] = "\xef\xbf\xbd";
    const char *text = json_string_value(string), *end = text + json_string_length(string);
    _cleanup_buffer_ struct buffer copy = {0};
    int r = 0;
    if (strlen(text) == json_string_length(string))
        return text;
    for (const char *at = text; at <= end && r == 0; at += strlen(at) + 1) {
        if (at > text)
            r = buffer_append_text(&copy, replacement);
        if (r == 0)
            r = buffer_append_text(&copy, at);
    }
    const char *taken = r == 0 ? gift_take(reading->gift, buffer_take(&copy)) : NULL;
    if (!taken)
        (void)reading_fail_memory(reading);
    return taken ? taken : "";
}

const char *reading_text(struct reading *reading, const json_t *object, const char *key,
                         const char *absent)
{
    const json_t *value = string_field(reading, object, key);
    return value ? without_nul(reading, value) : absent;
}

const char *reading_required_text(struct reading *reading, const json_t *object, const char *key)
{
    const char *text = reading_text(reading, object, key, NULL);
    if (!text)
        fail_field(reading, key, "is missing");
    return text ? text : "";
}

struct husk_text reading_bytes(struct reading *reading, const json_t *object, const char *key)
{
    const json_t *value = string_field(reading, object, key);
    if (!value)
        return (struct husk_text){.data = ""};
    return (struct husk_text){json_string_value(value), json_string_length(value)};
}

struct husk_text reading_required_bytes(struct reading *reading, const json_t *object,
                                        const char *key)
{
    if (!field(reading, object, key))
        fail_field(reading, key, "is missing");
    return reading_bytes(reading, object, key);
}

uint64_t reading_number(struct reading *reading, const json_t *object, const char *key)
{
    const json_t *value = field(reading, object, key);
    if (!value)
        return 0;
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        fail_field(reading, key, "is not a whole number");
        return 0;
    }
    return (uint64_t)json_integer_value(value);
}

int reading_int(struct reading *reading, const json_t *object, const char *key, int absent)
{
    const json_t *value = field(reading, object, key);
    if (!value)
        return absent;
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > INT_MAX) {
        fail_field(reading, key, "is not a whole number");
        return absent;
    }
    return (int)json_integer_value(value);
}

double reading_real(struct reading *reading, const json_t *object, const char *key)
{
    const json_t *value = field(reading, object, key);
    if (value && !json_is_number(value))
        fail_field(reading, key, "is not a number");
    return json_number_value(value);
}

bool reading_flag(struct reading *reading, const json_t *object, const char *key)
{
    const json_t *value = field(reading, object, key);
    if (value && !json_is_boolean(value))
        fail_field(reading, key, "is not true or false");
    return json_is_true(value);
}

json_t *reading_list(struct reading *reading, const json_t *object, const char *key)
{
    json_t *value = field(reading, object, key);
    if (value && !json_is_array(value)) {
        fail_field(reading, key, "is not a list");
        return NULL;
    }
    return value;
}

json_t *reading_object(struct reading *reading, const json_t *object, const char *key)
{
    json_t *value = field(reading, object, key);
    if (value && !json_is_object(value)) {
        fail_field(reading, key, "is not an object");
        return NULL;
    }
    return value;
}

/* --- memory ------------------------------------------------------------------------------------- */

void *reading_array(struct reading *reading, size_t count, size_t size)
{
    /* Bounded: there are no more than CLIENT_JSON_VALUES of anything. */
    void *array = reading->result == 0 ? gift_add(reading->gift, (count + 1) * size) : NULL;
    if (!array)
        (void)reading_fail_memory(reading);
    return array;
}

struct husk_text reading_dump(struct reading *reading, const json_t *json)
{
    struct husk_text text = {.data = ""};
    if (reading->result < 0)
        return text;
    char *dumped = gift_take(reading->gift, json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY));
    if (!dumped)
        (void)reading_fail_memory(reading);
    else
        text = (struct husk_text){dumped, strlen(dumped)};
    return text;
}
