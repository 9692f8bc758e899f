#include "library/entries.h"

#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/text.h"
#include "library/base64.h"
#include "library/gift.h"

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

static bool is_json(const char *type)
{
    return !strcmp(type, "application/json") || ends_with(type, "+json");
}

/* Kernels send these as base64. Of other types they send text. */
static bool is_binary(const char *type)
{
    static const char *const families[] = {"image/", "audio/", "video/", "font/"};
    static const char *const types[] = {"application/pdf", "application/octet-stream",
                                        "application/zip", "application/gzip"};
    if (ends_with(type, "+xml"))
        return false;
    for (size_t i = 0; i < ARRAY_LENGTH(families); i++) {
        if (starts_with(type, families[i]))
            return true;
    }
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        if (!strcmp(type, types[i]))
            return true;
    }
    return false;
}

/* Code may show anything as a picture: what is not base64 stays as it is. */
static struct husk_text decoded(struct reading *reading, struct husk_text text)
{
    size_t length;
    char *bytes = malloc(base64_room(text.length) + 1);
    if (!bytes) {
        (void)reading_fail_memory(reading);
        return text;
    }
    if (base64_decode(text.data, text.length, bytes, &length) < 0) {
        free(bytes);
        return text;
    }
    bytes[length] = '\0';
    if (!gift_take(reading->gift, bytes)) {
        (void)reading_fail_memory(reading);
        return text;
    }
    return (struct husk_text){bytes, length};
}

static struct husk_text data_of(struct reading *reading, const json_t *entry, const char *type)
{
    const json_t *data = json_object_get(entry, "data");
    if (data && is_json(type))
        return reading_dump(reading, data);
    struct husk_text text = reading_required_bytes(reading, entry, "data");
    return reading->result == 0 && is_binary(type) ? decoded(reading, text) : text;
}

static void read_output(struct reading *reading, const json_t *entry, struct husk_output *ret)
{
    if (!reading_is_object(reading, entry, "an entry of results"))
        return;
    const char *type = reading_required_text(reading, entry, "type");
    *ret = (struct husk_output){.type = type,
                                .data = data_of(reading, entry, type),
                                .output = reading_number(reading, entry, "output"),
                                .main = reading_flag(reading, entry, "main"),
                                .display_id = reading_text(reading, entry, "display_id", ""),
                                .update = reading_flag(reading, entry, "update")};
}

void entries_file(struct reading *reading, const json_t *entry, struct husk_file *ret)
{
    if (!reading_is_object(reading, entry, "an entry of files"))
        return;
    *ret = (struct husk_file){.path = reading_required_text(reading, entry, "path"),
                              .size = reading_number(reading, entry, "size"),
                              .type = reading_text(reading, entry, "type", ""),
                              .modified_at = reading_text(reading, entry, "modified_at", ""),
                              .change = reading_text(reading, entry, "change", ""),
                              .url = reading_text(reading, entry, "url", "")};
}

const struct husk_output *entries_outputs(struct reading *reading, const json_t *list,
                                          size_t *ret_count)
{
    size_t count = json_array_size(list);
    struct husk_output *outputs = reading_array(reading, count, sizeof *outputs);
    for (size_t i = 0; i < count && reading->result == 0; i++)
        read_output(reading, json_array_get(list, i), &outputs[i]);
    *ret_count = reading->result == 0 ? count : 0;
    return outputs;
}

const struct husk_file *entries_files(struct reading *reading, const json_t *list,
                                      size_t *ret_count)
{
    size_t count = json_array_size(list);
    struct husk_file *files = reading_array(reading, count, sizeof *files);
    for (size_t i = 0; i < count && reading->result == 0; i++)
        entries_file(reading, json_array_get(list, i), &files[i]);
    *ret_count = reading->result == 0 ? count : 0;
    return files;
}
