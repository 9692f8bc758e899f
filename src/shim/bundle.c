#include "shim/bundle.h"

#include <errno.h>
#include <string.h>

#include "husk/limits.h"
#include "shim/json_text.h"

enum {
    MAX_MIME_TYPE_LENGTH = 255
};

static bool is_json_type(const char *type)
{
    size_t length = strlen(type);
    return strcmp(type, "application/json") == 0 ||
           (length > 5 && strcmp(type + length - 5, "+json") == 0);
}

/* What an entry has as data: JSON types as they are, all others as text, which may come as a list of lines.
 * A new reference, NULL if it is neither. */
static json_t *entry_data(const char *type, json_t *value)
{
    if (is_json_type(type) || json_is_string(value))
        return json_incref(value);
    if (!json_is_array(value))
        return NULL;
    _cleanup_buffer_ struct buffer joined = BUFFER_LIMITED(MAX_RESULT_BYTES);
    size_t i;
    json_t *line;
    json_array_foreach(value, i, line)
    {
        if (!json_is_string(line) ||
            buffer_append(&joined, json_string_value(line), json_string_length(line)) < 0)
            return NULL;
    }
    return json_stringn(joined.data ? joined.data : "", joined.length);
}

/* Can the text of this value have so few bytes? Spares the writing of a long one that then does not fit. */
static bool may_fit(const json_t *value, size_t room)
{
    return json_string_length(value) < room;
}

/* A new reference; NULL if `value` is nothing that can be shown, or memory is out. */
static json_t *entry_object(const struct display *display, const char *type, json_t *value)
{
    json_t *data = entry_data(type, value);
    if (!data)
        return NULL;
    json_auto_t *object = json_object();
    json_t *metadata = json_object_get(json_object_get(display->content, "metadata"), type);
    int r = json_object_set_new(object, "type", json_string(type));
    r |= json_object_set_new(object, "data", data);
    r |= json_object_set_new(object, "output", json_integer((json_int_t)display->number));
    if (display->main)
        r |= json_object_set_new(object, "main", json_true());
    if (display->id)
        r |= json_object_set_new(object, "display_id", json_string(display->id));
    if (display->foreign)
        r |= json_object_set_new(object, "update", json_true());
    if (json_object_size(metadata) > 0)
        r |= json_object_set(object, "metadata", metadata);
    return r == 0 ? json_incref(object) : NULL;
}

size_t bundle_render(const struct display *display, const struct bundle_limits *limits,
                     struct buffer *out, bool *ret_cut)
{
    size_t flags = JSON_COMPACT | (limits->ascii ? JSON_ENSURE_ASCII : 0);
    size_t start = out->length, limit = out->limit, count = 0;
    const char *type;
    json_t *value;
    json_object_foreach(json_object_get(display->content, "data"), type, value)
    {
        size_t before = out->length, room = limits->bytes - (before - start);
        out->limit = before + (room < MAX_RESULT_BYTES ? room : MAX_RESULT_BYTES);
        json_auto_t *object = NULL;
        if (*type && strlen(type) <= MAX_MIME_TYPE_LENGTH && count < limits->entries &&
            may_fit(value, out->limit - before))
            object = entry_object(display, type, value);
        if (object && (count == 0 || buffer_append(out, ",", 1) == 0) &&
            json_text_append(object, flags, out) == 0) {
            count++;
        } else {
            out->length = before;
            *ret_cut = true;
        }
    }
    out->limit = limit;
    return count;
}
