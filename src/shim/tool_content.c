#include "shim/tool_content.h"

#include <errno.h>
#include <string.h>

#include "base/attributes.h"
#include "base/memory.h"
#include "base/percent.h"
#include "base/quoted.h"
#include "base/text.h"
#include "husk/limits.h"
#include "shim/json_text.h"

/* --- items -------------------------------------------------------------------------------------- */

static int begin_item(struct buffer *out)
{
    return out->length ? buffer_append_text(out, ",") : 0;
}

int tool_content_text(struct buffer *out, const char *text, size_t length)
{
    size_t before = out->length;
    int r = begin_item(out);
    if (r == 0)
        r = buffer_append_text(out, "{\"type\":\"text\",\"text\":");
    if (r == 0)
        r = quoted_append(out, text, length);
    if (r == 0)
        r = buffer_append_text(out, "}");
    if (r < 0)
        out->length = before;
    return r;
}

/* --- images and sound --------------------------------------------------------------------------- */

static const char *const media[] = {"image/png",  "image/jpeg", "image/gif",
                                    "image/webp", "audio/wav",  "audio/mpeg"};

bool tool_content_is_media(const char *type)
{
    for (size_t i = 0; i < ARRAY_LENGTH(media); i++) {
        if (strcmp(type, media[i]) == 0)
            return true;
    }
    return false;
}

/* Kernels break lines; clients refuse a whole answer for a character that does not belong there. The letters of `data`
 * without blanks, or -EBADMSG. */
static int append_base64(struct buffer *out, const char *data, size_t length)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t start = out->length;
    size_t padding = 0;
    while (length > 0) {
        size_t blank = 0;
        while (blank < length && strchr("\r\n \t", data[blank]) && data[blank])
            blank++;
        data += blank;
        length -= blank;
        size_t run = 0;
        while (run < length && data[run] && strchr(alphabet, data[run]))
            run++;
        if (run > 0 && padding > 0)
            return -EBADMSG;
        if (run == 0 && length > 0) {
            if (data[0] != '=' || ++padding > 2)
                return -EBADMSG;
            run = 1;
        }
        int r = buffer_append(out, data, run);
        if (r < 0)
            return r;
        data += run;
        length -= run;
    }
    return out->length > start && (out->length - start) % 4 == 0 ? 0 : -EBADMSG;
}

static int append_media(const char *type, const json_t *data, struct buffer *out)
{
    int r = begin_item(out);
    if (r == 0)
        r = buffer_printf(out, "{\"type\":\"%.5s\",\"data\":\"", type);
    if (r == 0)
        r = append_base64(out, json_string_value(data), json_string_length(data));
    return r == 0 ? buffer_printf(out, "\",\"mimeType\":\"%s\"}", type) : r;
}

/* A model that does not see what it has drawn should know why, and what to do about it. */
static int append_absence(const char *type, size_t length, struct buffer *out)
{
    _cleanup_free_ char *text =
        must_format("[%s of %zu bytes as base64 is left out: that is too much for one answer. Draw "
                    "fewer or smaller ones, or save it to a file and read that.]",
                    type, length);
    return tool_content_text(out, text, strlen(text));
}

/* 1: there was one, and it is appended or too large. */
static int show_media(const json_t *bundle, struct tool_room *room, struct buffer *out,
                      bool *ret_cut)
{
    for (size_t i = 0; i < ARRAY_LENGTH(media); i++) {
        const json_t *data = json_object_get(bundle, media[i]);
        size_t before = out->length;
        if (!json_is_string(data))
            continue;
        int r =
            json_string_length(data) <= room->images ? append_media(media[i], data, out) : -ENOSPC;
        if (r == 0) {
            room->images -= json_string_length(data);
            return 1;
        }
        out->length = before;
        *ret_cut = true;
        if (r == -ENOSPC && append_absence(media[i], json_string_length(data), out) == 0)
            return 1;
        if (r == -ENOMEM)
            return r;
    }
    return 0;
}

/* --- text --------------------------------------------------------------------------------------- */

/* "<IPython.core.display.Markdown object>" and the like say less than any other type does. */
static bool says_something(const json_t *text)
{
    return json_string_length(text) > 0 && !starts_with(json_string_value(text), "<IPython.");
}

/* The type that a model reads best; NULL: none of them. */
static const json_t *best_text(const json_t *bundle)
{
    static const char *const types[] = {"text/plain",       "text/markdown", "text/latex",
                                        "application/json", "text/html",     "image/svg+xml"};
    const char *type;
    json_t *value;
    for (size_t i = 0; i < ARRAY_LENGTH(types); i++) {
        const json_t *text = json_object_get(bundle, types[i]);
        if (text && (!json_is_string(text) || says_something(text)))
            return text;
    }
    json_object_foreach((json_t *)(uintptr_t)bundle, type, value)
    {
        if (json_is_string(value) && starts_with(type, "text/"))
            return value;
    }
    return NULL;
}

/* A text may come as a list of lines; anything else is shown as JSON. */
static int render_text(const json_t *value, struct buffer *out)
{
    size_t i;
    json_t *line;
    if (json_is_string(value))
        return buffer_append(out, json_string_value(value), json_string_length(value));
    json_array_foreach(value, i, line)
    {
        if (!json_is_string(line))
            return json_text_append(value, JSON_COMPACT | JSON_ENCODE_ANY, out);
    }
    if (!json_is_array(value))
        return json_text_append(value, JSON_COMPACT | JSON_ENCODE_ANY, out);
    int r = 0;
    json_array_foreach(value, i, line)
    {
        if (r == 0)
            r = buffer_append(out, json_string_value(line), json_string_length(line));
    }
    return r;
}

static int show_text(const json_t *value, struct tool_room *room, struct buffer *out, bool *ret_cut)
{
    static const char more[] = "\n[the rest is left out: it is too long]";
    _cleanup_buffer_ struct buffer text = BUFFER_LIMITED(MAX_RESULT_BYTES);
    if (render_text(value, &text) < 0) {
        *ret_cut = true;
        return 0;
    }
    size_t limit = room->text < MAX_TOOL_TEXT_BYTES ? room->text : MAX_TOOL_TEXT_BYTES;
    if (text.length > limit) {
        *ret_cut = true;
        text.length = utf8_cut(text.data, text.length, limit);
        text.limit = 0;
        if (text.length == 0 || buffer_append_text(&text, more) < 0)
            return 0;
    }
    room->text -= text.length < room->text ? text.length : room->text;
    return tool_content_text(out, text.data ? text.data : "", text.length);
}

int tool_content_display(const json_t *content, struct tool_room *room, struct buffer *out,
                         bool *ret_cut)
{
    const json_t *bundle = json_object_get(content, "data");
    int r = show_media(bundle, room, out, ret_cut);
    if (r != 0)
        return r < 0 ? r : 0;
    const json_t *text = best_text(bundle);
    return text ? show_text(text, room, out, ret_cut) : 0;
}

/* --- files -------------------------------------------------------------------------------------- */

static int append_link(const char *sandbox, const json_t *file, struct buffer *out)
{
    const char *path = json_string_value(json_object_get(file, "path"));
    const char *type = json_string_value(json_object_get(file, "type"));
    const char *change = json_string_value(json_object_get(file, "change"));
    if (!path || !type || !change)
        return 0;
    _cleanup_buffer_ struct buffer uri = {0};
    int r = buffer_printf(&uri, "husk://%s/", sandbox);
    if (r == 0)
        r = percent_encode(path, "/", &uri);
    if (r < 0)
        return r;
    json_auto_t *link =
        json_pack("{s:s, s:s%, s:s, s:s#, s:O, s:s}", "type", "resource_link", "uri", uri.data,
                  uri.length, "name", path, "mimeType", type, (int)strcspn(type, ";"), "size",
                  json_object_get(file, "size"), "description",
                  change[1] == 'r' ? "created by this code" : "changed by this code");
    if (!link)
        return 0; /* its name is not UTF-8 */
    r = begin_item(out);
    return r == 0 ? json_text_append(link, JSON_COMPACT, out) : r;
}

int tool_content_stream(const struct transcript *transcript, const char *whole,
                        enum text_stream stream, struct buffer *out)
{
    _cleanup_buffer_ struct buffer text = {0};
    int r = stream == STREAM_STDERR ? buffer_append_text(&text, "stderr:\n") : 0;
    size_t label = text.length;
    if (r == 0)
        r = transcript_render(transcript, whole, &text);
    return r == 0 && text.length > label ? tool_content_text(out, text.data, text.length) : r;
}

int tool_content_files(const char *sandbox, bool links, const json_t *files, struct buffer *out)
{
    _cleanup_buffer_ struct buffer list = {0};
    size_t i, count = json_array_size(files);
    json_t *file;
    int r = 0;
    json_array_foreach(files, i, file)
    {
        if (i == MAX_TOOL_LINKS)
            r = buffer_printf(&list, "%s%zu more files were created or changed.",
                              list.length ? "\n" : "", count - i);
        if (r < 0 || i >= MAX_TOOL_LINKS)
            break;
        if (links)
            r = append_link(sandbox, file, out);
        else
            r = buffer_printf(&list, "%s%s %s", i ? "\n" : "Files:\n",
                              json_string_value(json_object_get(file, "change")),
                              json_string_value(json_object_get(file, "path")));
    }
    return r == 0 && list.length ? tool_content_text(out, list.data, list.length) : r;
}
