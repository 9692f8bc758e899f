#include "shim/kernel_info.h"

#include "base/attributes.h"
#include "base/text.h"

enum {
    LONGEST_VALUE = 64
};

static json_t *short_string(const json_t *value)
{
    if (!json_is_string(value))
        return json_string("");
    const char *text = json_string_value(value);
    return json_stringn(text, utf8_cut(text, json_string_length(value), LONGEST_VALUE));
}

json_t *kernel_info_summary(const json_t *content)
{
    const json_t *language = json_object_get(content, "language_info");
    const struct {
        const char *name;
        const json_t *value;
    } members[] = {
        {"language", json_object_get(language, "name")},
        {"language_version", json_object_get(language, "version")},
        {"implementation", json_object_get(content, "implementation")},
        {"implementation_version", json_object_get(content, "implementation_version")},
        {"protocol_version", json_object_get(content, "protocol_version")},
    };
    json_t *summary = json_object();
    for (size_t i = 0; i < ARRAY_LENGTH(members); i++)
        (void)json_object_set_new(summary, members[i].name, short_string(members[i].value));
    return summary;
}
