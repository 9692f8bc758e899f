#include "shim/outputs.h"

#include <errno.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "husk/limits.h"
#include "shim/plain_text.h"
#include "shim/transcript.h"

enum {
    MAX_MIME_TYPE_LENGTH = 255,
    MAX_DISPLAY_ID_LENGTH = 255,
};

/* One thing that was shown: its MIME types, rendered as entries of `results`, joined by commas. */
struct display {
    size_t number;
    bool main;
    char *id; /* NULL: cannot be updated */
    char *entries;
    size_t length;
    size_t count; /* of entries */
};

struct outputs {
    struct transcript streams[2]; /* stdout, stderr */
    struct display *displays;
    size_t display_count;
    size_t display_capacity;
    size_t result_bytes; /* of all entries */
    size_t result_count;
    bool clear_pending; /* at the next output */
    bool truncated;
    json_t *error; /* strings; NULL: none */
    json_t *error_value;
    struct transcript traceback;
    bool has_traceback;
    int64_t execution_count;
};

struct outputs *outputs_new(void)
{
    struct outputs *outputs = must_alloc(sizeof *outputs);
    for (size_t i = 0; i < ARRAY_LENGTH(outputs->streams); i++)
        transcript_init(&outputs->streams[i], MAX_STREAM_BYTES);
    transcript_init(&outputs->traceback, MAX_TRACEBACK_BYTES);
    outputs->execution_count = -1;
    return outputs;
}

static void drop_entries(struct outputs *outputs, struct display *display)
{
    outputs->result_bytes -= display->length;
    outputs->result_count -= display->count;
    free(display->entries);
    display->entries = NULL;
    display->length = 0;
    display->count = 0;
}

static void clear(struct outputs *outputs)
{
    for (size_t i = 0; i < outputs->display_count; i++) {
        drop_entries(outputs, &outputs->displays[i]);
        free(outputs->displays[i].id);
    }
    outputs->display_count = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(outputs->streams); i++)
        transcript_clear(&outputs->streams[i]);
    outputs->clear_pending = false;
}

struct outputs *outputs_free(struct outputs *outputs)
{
    if (!outputs)
        return NULL;
    clear(outputs);
    free(outputs->displays);
    transcript_free(&outputs->traceback);
    json_decref(outputs->error);
    json_decref(outputs->error_value);
    free(outputs);
    return NULL;
}

void outputs_mark_truncated(struct outputs *outputs)
{
    outputs->truncated = true;
}

bool outputs_has_error(const struct outputs *outputs)
{
    return outputs->error != NULL;
}

int64_t outputs_execution_count(const struct outputs *outputs)
{
    return outputs->execution_count;
}

/* --- streams and errors -------------------------------------------------------------------- */

static void begin_output(struct outputs *outputs)
{
    if (outputs->clear_pending)
        clear(outputs);
}

static void note_count(struct outputs *outputs, const json_t *content)
{
    const json_t *count = json_object_get(content, "execution_count");
    if (json_is_integer(count) && json_integer_value(count) >= 0)
        outputs->execution_count = json_integer_value(count);
}

static void add_stream(struct outputs *outputs, const json_t *content)
{
    const char *name = json_string_value(json_object_get(content, "name"));
    const json_t *text = json_object_get(content, "text");
    if (!name || !json_is_string(text))
        return outputs_mark_truncated(outputs);
    begin_output(outputs);
    transcript_append(&outputs->streams[strcmp(name, "stderr") == 0], json_string_value(text),
                      json_string_length(text));
}

/* A string member without colours, cut to the limit; `fallback` if it is none. */
static json_t *plain_member(const json_t *content, const char *name, const char *fallback)
{
    const json_t *value = json_object_get(content, name);
    if (!json_is_string(value))
        return json_string(fallback);
    _cleanup_free_ char *text = malloc(json_string_length(value) + 1);
    if (!text)
        return json_string(fallback);
    size_t length = plain_text_strip(json_string_value(value), json_string_length(value), text);
    return json_stringn(text, utf8_cut(text, length, MAX_ERROR_TEXT_BYTES));
}

static void set_error(struct outputs *outputs, json_t *error, json_t *error_value)
{
    json_decref(outputs->error);
    json_decref(outputs->error_value);
    outputs->error = error;
    outputs->error_value = error_value;
    outputs->has_traceback = false;
    transcript_clear(&outputs->traceback);
}

static void append_traceback_line(struct outputs *outputs, const json_t *line)
{
    if (!json_is_string(line))
        return;
    _cleanup_free_ char *text = malloc(json_string_length(line) + 1);
    if (!text)
        return outputs_mark_truncated(outputs);
    if (outputs->has_traceback)
        transcript_append(&outputs->traceback, "\n", 1);
    outputs->has_traceback = true;
    transcript_append(&outputs->traceback, text,
                      plain_text_strip(json_string_value(line), json_string_length(line), text));
}

static void add_error(struct outputs *outputs, const json_t *content)
{
    begin_output(outputs);
    set_error(outputs, plain_member(content, "ename", "Error"),
              plain_member(content, "evalue", ""));
    size_t i;
    json_t *line;
    json_array_foreach(json_object_get(content, "traceback"), i, line)
        append_traceback_line(outputs, line);
}

void outputs_reply(struct outputs *outputs, const json_t *content)
{
    const char *status = json_string_value(json_object_get(content, "status"));
    note_count(outputs, content);
    if (outputs->error || (status && strcmp(status, "ok") == 0))
        return;
    if (status && strcmp(status, "error") == 0)
        add_error(outputs, content);
    else if (status && strcmp(status, "aborted") == 0)
        set_error(outputs, json_string("Aborted"), json_string("the kernel skipped this code"));
    else
        set_error(outputs, json_string("NoReply"),
                  json_string("the kernel's reply could not be read"));
}

/* --- results ------------------------------------------------------------------------------- */

static int append_bytes(const char *bytes, size_t length, void *buffer)
{
    return buffer_append(buffer, bytes, length);
}

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

struct entry {
    const char *type;
    json_t *value;
    const json_t *metadata; /* of the whole display, by MIME type */
};

/* Append `entry` to `rendered`. 0, or -ENOSPC or -EINVAL with nothing changed. */
static int render_entry(const struct display *display, struct entry entry, struct buffer *rendered)
{
    json_t *data = entry_data(entry.type, entry.value);
    if (!data)
        return -EINVAL;
    json_auto_t *object = json_object();
    json_t *own = json_object_get(entry.metadata, entry.type);
    int r = json_object_set_new(object, "type", json_string(entry.type));
    r |= json_object_set_new(object, "data", data);
    r |= json_object_set_new(object, "output", json_integer((json_int_t)display->number));
    if (display->main)
        r |= json_object_set_new(object, "main", json_true());
    if (json_object_size(own) > 0)
        r |= json_object_set(object, "metadata", own);

    size_t before = rendered->length;
    if (r == 0 && before > 0)
        r = buffer_append(rendered, ",", 1);
    if (r == 0)
        r = json_dump_callback(object, append_bytes, rendered, JSON_COMPACT);
    if (r == 0)
        return 0;
    rendered->length = before;
    return -ENOSPC;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Give `display` the MIME types of `content`, as far as the limits go. */
static void fill_display(struct outputs *outputs, struct display *display, const json_t *content)
{
    drop_entries(outputs, display);
    _cleanup_buffer_ struct buffer rendered = {0};
    const char *type;
    json_t *value;
    json_object_foreach(json_object_get(content, "data"), type, value)
    {
        size_t room = MAX_RESULTS_BYTES - outputs->result_bytes - rendered.length;
        if (!*type || strlen(type) > MAX_MIME_TYPE_LENGTH ||
            outputs->result_count + display->count >= MAX_RESULTS) {
            outputs->truncated = true;
            continue;
        }
        rendered.limit = rendered.length + smaller(room, MAX_RESULT_BYTES);
        struct entry entry = {type, value, json_object_get(content, "metadata")};
        if (rendered.limit == 0 || render_entry(display, entry, &rendered) < 0)
            outputs->truncated = true;
        else
            display->count++;
    }
    if (display->count == 0)
        return;
    display->length = rendered.length;
    display->entries = buffer_take(&rendered);
    /* The buffer may be twice as large as what is in it. */
    char *fitting = realloc(display->entries, display->length + 1);
    if (fitting)
        display->entries = fitting;
    outputs->result_bytes += display->length;
    outputs->result_count += display->count;
}

/* Its identity within this execution, NULL if it has none. */
static const char *display_id(const json_t *content)
{
    const json_t *id = json_object_get(json_object_get(content, "transient"), "display_id");
    return json_string_length(id) <= MAX_DISPLAY_ID_LENGTH ? json_string_value(id) : NULL;
}

static void add_display(struct outputs *outputs, const json_t *content, bool main)
{
    if (!json_is_object(json_object_get(content, "data")))
        return outputs_mark_truncated(outputs);
    begin_output(outputs);
    if (outputs->display_count == MAX_RESULTS)
        return outputs_mark_truncated(outputs);
    if (outputs->display_count == outputs->display_capacity) {
        size_t capacity = outputs->display_capacity ? outputs->display_capacity * 2 : 8;
        struct display *grown = realloc(outputs->displays, capacity * sizeof *grown);
        if (!grown)
            return outputs_mark_truncated(outputs);
        outputs->displays = grown;
        outputs->display_capacity = capacity;
    }
    const char *id = display_id(content);
    struct display *display = &outputs->displays[outputs->display_count];
    *display = (struct display){
        .number = outputs->display_count++, .main = main, .id = id ? must_copy(id) : NULL};
    fill_display(outputs, display, content);
}

static void add_display_data(struct outputs *outputs, const json_t *content)
{
    add_display(outputs, content, false);
}

static void add_execute_result(struct outputs *outputs, const json_t *content)
{
    note_count(outputs, content);
    add_display(outputs, content, true);
}

static void update_display_data(struct outputs *outputs, const json_t *content)
{
    const char *id = display_id(content);
    if (!id || !json_is_object(json_object_get(content, "data")))
        return;
    for (size_t i = 0; i < outputs->display_count; i++) {
        struct display *display = &outputs->displays[i];
        if (display->id && strcmp(display->id, id) == 0)
            fill_display(outputs, display, content);
    }
}

static void clear_output(struct outputs *outputs, const json_t *content)
{
    if (json_is_true(json_object_get(content, "wait")))
        outputs->clear_pending = true;
    else
        clear(outputs);
}

void outputs_add(struct outputs *outputs, const char *type, const json_t *content)
{
    static const struct {
        const char *type;
        void (*add)(struct outputs *outputs, const json_t *content);
    } handlers[] = {
        {"stream", add_stream},
        {"execute_input", note_count},
        {"display_data", add_display_data},
        {"execute_result", add_execute_result},
        {"update_display_data", update_display_data},
        {"clear_output", clear_output},
        {"error", add_error},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(handlers); i++) {
        if (strcmp(handlers[i].type, type) != 0)
            continue;
        if (content)
            handlers[i].add(outputs, content);
        else
            outputs_mark_truncated(outputs);
        return;
    }
}

/* --- the answer ---------------------------------------------------------------------------- */

static json_t *transcript_string(const struct transcript *transcript)
{
    _cleanup_buffer_ struct buffer text = {0};
    if (transcript_render(transcript, &text) < 0)
        return NULL;
    return json_stringn(text.data ? text.data : "", text.length);
}

/* The members in front of the results. */
static json_t *answer_front(const struct outputs *outputs, const struct verdict *verdict)
{
    json_auto_t *front = json_object();
    int r = json_object_set_new(front, "stdout", transcript_string(&outputs->streams[0]));
    r |= json_object_set_new(front, "stderr", transcript_string(&outputs->streams[1]));
    json_t *error = verdict->error   ? json_string(verdict->error)
                    : outputs->error ? json_incref(outputs->error)
                                     : json_null();
    r |= json_object_set_new(front, "error", error);
    json_t *value = verdict->error         ? json_string(verdict->error_value)
                    : outputs->error_value ? json_incref(outputs->error_value)
                                           : json_null();
    r |= json_object_set_new(front, "error_value", value);
    r |= json_object_set_new(front, "traceback",
                             outputs->has_traceback ? transcript_string(&outputs->traceback)
                                                    : json_null());
    return r == 0 ? json_incref(front) : NULL;
}

/* The members behind them. */
static json_t *answer_back(const struct outputs *outputs, const struct verdict *verdict)
{
    static const char *const names[] = {
        [EXECUTION_OK] = "ok",           [EXECUTION_ERROR] = "error",
        [EXECUTION_TIMEOUT] = "timeout", [EXECUTION_INTERRUPTED] = "interrupted",
        [EXECUTION_DIED] = "died",
    };
    bool truncated = outputs->truncated || transcript_is_cut(&outputs->streams[0]) ||
                     transcript_is_cut(&outputs->streams[1]) ||
                     transcript_is_cut(&outputs->traceback);
    json_t *count =
        outputs->execution_count >= 0 ? json_integer(outputs->execution_count) : json_null();
    return json_pack("{s:s, s:b, s:o, s:I, s:b}", "status", names[verdict->status], "state_lost",
                     verdict->state_lost, "execution_count", count, "duration_ms",
                     (json_int_t)verdict->duration_ms, "truncated", truncated);
}

/* The results are JSON text already, so they are set between the two objects as they are. */
int outputs_render(struct outputs *outputs, const struct verdict *verdict, struct buffer *out)
{
    json_auto_t *front = answer_front(outputs, verdict);
    json_auto_t *back = answer_back(outputs, verdict);
    if (!front || !back)
        return -ENOMEM;
    if (json_dump_callback(front, append_bytes, out, JSON_COMPACT) < 0)
        return -ENOSPC;
    out->length--; /* the brace */
    int r = buffer_append_text(out, ",\"results\":[");
    const char *separator = "";
    for (size_t i = 0; i < outputs->display_count && r == 0; i++) {
        const struct display *display = &outputs->displays[i];
        if (display->count == 0)
            continue;
        r = buffer_append_text(out, separator);
        if (r == 0)
            r = buffer_append(out, display->entries, display->length);
        separator = ",";
    }
    if (r == 0)
        r = buffer_append_text(out, "],");
    size_t brace = out->length;
    if (r == 0 && json_dump_callback(back, append_bytes, out, JSON_COMPACT) < 0)
        r = -ENOSPC;
    if (r == 0) {
        memmove(out->data + brace, out->data + brace + 1, out->length - brace - 1);
        out->length--;
    }
    return r;
}
