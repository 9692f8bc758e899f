#include "huskd/stdin_lines.h"

#include <string.h>

#include "husk/limits.h"

/* One line without its line end. */
static int add_line(json_t *lines, const char *text, size_t length)
{
    if (length > 0 && text[length - 1] == '\n')
        length--;
    return json_array_append_new(lines, json_stringn(text, length));
}

static json_t *lines_of_text(const char *text, size_t length)
{
    json_auto_t *lines = json_array();
    while (length > 0) {
        const char *end = memchr(text, '\n', length);
        size_t taken = end ? (size_t)(end - text) + 1 : length;
        if (json_array_size(lines) == MAX_STDIN_LINES || add_line(lines, text, taken) < 0)
            return NULL;
        text += taken;
        length -= taken;
    }
    return json_incref(lines);
}

static json_t *lines_of_list(const json_t *list)
{
    json_auto_t *lines = json_array();
    size_t i, bytes = 0;
    json_t *line;
    json_array_foreach(list, i, line)
    {
        bytes += json_string_length(line);
        if (!json_is_string(line) || bytes > MAX_STDIN_BYTES ||
            add_line(lines, json_string_value(line), json_string_length(line)) < 0)
            return NULL;
    }
    return json_incref(lines);
}

json_t *stdin_lines(const json_t *given)
{
    size_t length = json_string_length(given);
    if (json_is_string(given))
        return length <= MAX_STDIN_BYTES ? lines_of_text(json_string_value(given), length) : NULL;
    if (!json_is_array(given) || json_array_size(given) > MAX_STDIN_LINES)
        return NULL;
    return lines_of_list(given);
}
