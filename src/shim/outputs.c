#include "shim/outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/text.h"
#include "husk/limits.h"
#include "shim/plain_text.h"
#include "shim/transcript.h"

/* What was shown under an id, and can be updated. */
struct updatable {
    char *id;
    size_t number;
    bool main;
    bool foreign;
};

struct outputs {
    struct recorder *recorder;
    bool colours;
    struct updatable *updatables;
    size_t updatable_count;
    size_t updatable_capacity;
    size_t next_number; /* of what is shown next */
    bool clear_pending; /* at the next output */
    bool truncated;
    json_t *error; /* strings; NULL: none */
    json_t *error_value;
    bool replied;
    json_t *reply; /* its content; NULL: none, or it could not be read */
    int64_t execution_count;
};

struct outputs *outputs_new(struct recorder *recorder, bool colours)
{
    struct outputs *outputs = must_alloc(sizeof *outputs);
    *outputs = (struct outputs){.recorder = recorder, .colours = colours, .execution_count = -1};
    return outputs;
}

static void forget_displays(struct outputs *outputs)
{
    for (size_t i = 0; i < outputs->updatable_count; i++)
        free(outputs->updatables[i].id);
    outputs->updatable_count = 0;
    outputs->next_number = 0;
}

struct outputs *outputs_free(struct outputs *outputs)
{
    if (!outputs)
        return NULL;
    forget_displays(outputs);
    free(outputs->updatables);
    json_decref(outputs->reply);
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

void outputs_expect_count(struct outputs *outputs, int64_t count)
{
    outputs->execution_count = count;
}

int64_t outputs_execution_count(const struct outputs *outputs)
{
    return outputs->execution_count;
}

/* --- streams -------------------------------------------------------------------------------- */

static void clear(struct outputs *outputs)
{
    outputs->clear_pending = false;
    forget_displays(outputs);
    outputs->recorder->type->clear(outputs->recorder);
}

static void begin_output(struct outputs *outputs)
{
    if (outputs->clear_pending)
        clear(outputs);
}

static void clear_output(struct outputs *outputs, const json_t *content)
{
    if (json_is_true(json_object_get(content, "wait")))
        outputs->clear_pending = true;
    else
        clear(outputs);
}

static void note_count(struct outputs *outputs, const json_t *content)
{
    const json_t *count = json_object_get(content, "execution_count");
    if (json_is_integer(count) && json_integer_value(count) >= 0)
        outputs->execution_count = json_integer_value(count);
}

/* Which stream a message is about; -EINVAL if it does not say. */
static int read_stream(const json_t *content)
{
    const char *name = json_string_value(json_object_get(content, "name"));
    if (!name)
        return -EINVAL;
    return strcmp(name, "stderr") == 0 ? STREAM_STDERR : STREAM_STDOUT;
}

static void add_stream(struct outputs *outputs, const json_t *content)
{
    int stream = read_stream(content);
    const json_t *text = json_object_get(content, "text");
    if (stream < 0 || !json_is_string(text))
        return outputs_mark_truncated(outputs);
    begin_output(outputs);
    outputs->recorder->type->text(outputs->recorder, (enum text_stream)stream,
                                  json_string_value(text), json_string_length(text));
}

/* The path is shown to people, so it must be one line of plain text. */
static bool presentable(const char *path)
{
    size_t length = path ? strlen(path) : 0;
    if (length == 0 || length > MAX_TEXT_PATH_LENGTH)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (path[i] < ' ' || path[i] > '~')
            return false;
    }
    return true;
}

static void note_whole_text(struct outputs *outputs, const json_t *content)
{
    int stream = read_stream(content);
    const char *path = json_string_value(json_object_get(content, "path"));
    if (stream >= 0 && presentable(path))
        outputs->recorder->type->whole_text(outputs->recorder, (enum text_stream)stream, path);
}

/* --- errors --------------------------------------------------------------------------------- */

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

static void append_line(struct outputs *outputs, struct transcript *traceback, const json_t *line)
{
    const char *text = json_string_value(line);
    size_t length = json_string_length(line);
    _cleanup_free_ char *plain = NULL;
    if (!outputs->colours) {
        plain = malloc(length + 1);
        if (!plain)
            return outputs_mark_truncated(outputs);
        length = plain_text_strip(text, length, plain);
        text = plain;
    }
    transcript_append(traceback, text, length);
}

/* The lines as one text, bounded; what is left out sets `truncated`. */
static void join_traceback(struct outputs *outputs, const json_t *lines, struct buffer *text)
{
    struct transcript traceback;
    transcript_init(&traceback, MAX_TRACEBACK_BYTES);
    size_t i, written = 0;
    json_t *line;
    json_array_foreach(lines, i, line)
    {
        if (!json_is_string(line))
            continue;
        if (written++ > 0)
            transcript_append(&traceback, "\n", 1);
        append_line(outputs, &traceback, line);
    }
    if (transcript_render(&traceback, NULL, text) < 0 || transcript_is_cut(&traceback))
        outputs_mark_truncated(outputs);
    /* An exception may have a traceback of one empty line; one without any has none. */
    if (written > 0)
        (void)buffer_text(text);
    transcript_free(&traceback);
}

static void set_error(struct outputs *outputs, json_t *error, json_t *error_value,
                      const json_t *lines)
{
    json_decref(outputs->error);
    json_decref(outputs->error_value);
    outputs->error = error;
    outputs->error_value = error_value;
    _cleanup_buffer_ struct buffer traceback = {0};
    join_traceback(outputs, lines, &traceback);
    struct exception exception = {
        .name = error,
        .value = error_value,
        .traceback = traceback.data,
        .traceback_length = traceback.length,
    };
    outputs->recorder->type->exception(outputs->recorder, &exception);
}

static void add_error(struct outputs *outputs, const json_t *content)
{
    begin_output(outputs);
    set_error(outputs, plain_member(content, "ename", "Error"), plain_member(content, "evalue", ""),
              json_object_get(content, "traceback"));
}

void outputs_reply(struct outputs *outputs, json_t *content)
{
    note_count(outputs, content);
    outputs->replied = true;
    json_decref(outputs->reply);
    outputs->reply = json_incref(content);
}

void outputs_close(struct outputs *outputs)
{
    const char *status = json_string_value(json_object_get(outputs->reply, "status"));
    if (outputs->error || !outputs->replied || (status && strcmp(status, "ok") == 0))
        return;
    if (status && strcmp(status, "error") == 0)
        add_error(outputs, outputs->reply);
    else if (status && strcmp(status, "aborted") == 0)
        set_error(outputs, json_string("Aborted"), json_string("the kernel skipped this code"),
                  NULL);
    else
        set_error(outputs, json_string("NoReply"),
                  json_string("the kernel's reply could not be read"), NULL);
}

/* --- what is shown -------------------------------------------------------------------------- */

/* Its identity, NULL if it has none. */
static const char *display_id(const json_t *content)
{
    const json_t *id = json_object_get(json_object_get(content, "transient"), "display_id");
    const char *text = json_string_value(id);
    size_t length = json_string_length(id);
    return text && length == strlen(text) && length <= MAX_DISPLAY_ID_LENGTH ? text : NULL;
}

static size_t times_shown(const struct outputs *outputs, const char *id)
{
    size_t times = 0;
    for (size_t i = 0; i < outputs->updatable_count; i++)
        times += strcmp(outputs->updatables[i].id, id) == 0;
    return times;
}

/* Beyond the limits, or without memory, it just cannot be updated any more. */
static void remember(struct outputs *outputs, const struct display *display)
{
    if (!display->id || outputs->updatable_count == MAX_RESULTS ||
        times_shown(outputs, display->id) == MAX_DISPLAYS_OF_ID)
        return;
    if (outputs->updatable_count == outputs->updatable_capacity) {
        size_t capacity = outputs->updatable_capacity ? outputs->updatable_capacity * 2 : 8;
        struct updatable *grown = realloc(outputs->updatables, capacity * sizeof *grown);
        if (!grown)
            return;
        outputs->updatables = grown;
        outputs->updatable_capacity = capacity;
    }
    outputs->updatables[outputs->updatable_count++] =
        (struct updatable){.id = must_copy(display->id),
                           .number = display->number,
                           .main = display->main,
                           .foreign = display->foreign};
}

static void show(struct outputs *outputs, struct display display)
{
    if (!json_is_object(json_object_get(display.content, "data")))
        return outputs_mark_truncated(outputs);
    begin_output(outputs);
    display.number = outputs->next_number++;
    display.id = display_id(display.content);
    remember(outputs, &display);
    outputs->recorder->type->display(outputs->recorder, &display);
}

static void add_display_data(struct outputs *outputs, const json_t *content)
{
    show(outputs, (struct display){.content = content});
}

static void add_execute_result(struct outputs *outputs, const json_t *content)
{
    note_count(outputs, content);
    show(outputs, (struct display){.content = content, .main = true});
}

/* An id that this execution has not shown is one of an earlier execution, whose answer is sent already: whoever has
 * that answer has to be told. */
static void update_display_data(struct outputs *outputs, const json_t *content)
{
    const char *id = display_id(content);
    if (!id || !json_is_object(json_object_get(content, "data")))
        return;
    bool found = false;
    for (size_t i = 0; i < outputs->updatable_count; i++) {
        const struct updatable *shown = &outputs->updatables[i];
        if (strcmp(shown->id, id) != 0)
            continue;
        found = true;
        struct display display = {.number = shown->number,
                                  .main = shown->main,
                                  .replaces = true,
                                  .foreign = shown->foreign,
                                  .id = id,
                                  .content = content};
        outputs->recorder->type->display(outputs->recorder, &display);
    }
    if (!found)
        show(outputs, (struct display){.content = content, .foreign = true});
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
        {"husk_whole_text", note_whole_text},
    };
    /* Our kernel says when it left something out to stay below the limits of messages. */
    if (json_is_true(json_object_get(content, "husk_truncated")))
        outputs_mark_truncated(outputs);
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

/* --- how it ended --------------------------------------------------------------------------- */

int outputs_describe_error(const struct outputs *outputs, const struct verdict *verdict,
                           json_t *object)
{
    json_t *error = verdict->error   ? json_string(verdict->error)
                    : outputs->error ? json_incref(outputs->error)
                                     : json_null();
    json_t *value = verdict->error         ? json_string(verdict->error_value)
                    : outputs->error_value ? json_incref(outputs->error_value)
                                           : json_null();
    int r = json_object_set_new(object, "error", error);
    r |= json_object_set_new(object, "error_value", value);
    return r == 0 ? 0 : -ENOMEM;
}

const char *execution_status_name(enum execution_status status)
{
    static const char *const names[] = {
        [EXECUTION_OK] = "ok",           [EXECUTION_ERROR] = "error",
        [EXECUTION_TIMEOUT] = "timeout", [EXECUTION_INTERRUPTED] = "interrupted",
        [EXECUTION_DIED] = "died",       [EXECUTION_QUEUED] = "queued",
        [EXECUTION_RUNNING] = "running",
    };
    return names[status];
}

int outputs_describe_end(const struct outputs *outputs, const struct verdict *verdict,
                         json_t *object)
{
    bool truncated = outputs->truncated || outputs->recorder->type->is_cut(outputs->recorder);
    json_t *count =
        outputs->execution_count >= 0 ? json_integer(outputs->execution_count) : json_null();
    json_auto_t *end =
        json_pack("{s:s, s:b, s:o, s:I, s:b}", "status", execution_status_name(verdict->status),
                  "state_lost", verdict->state_lost, "execution_count", count, "duration_ms",
                  (json_int_t)verdict->duration_ms, "truncated", truncated);
    return end && json_object_update(object, end) == 0 ? 0 : -ENOMEM;
}
