#include "shim/answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/memory.h"
#include "husk/limits.h"
#include "shim/bundle.h"
#include "shim/json_text.h"
#include "shim/texts.h"

/* What was shown: rendered entries of `results`, joined by commas. */
struct shown {
    char *entries;
    size_t length;
    size_t count; /* of entries */
};

struct answer {
    struct recorder recorder;
    struct texts texts;
    struct shown *shown; /* by number */
    size_t shown_count;
    size_t shown_capacity;
    size_t result_bytes; /* of all entries */
    size_t result_count;
    json_t *traceback; /* a string; NULL: none */
    bool cut;
};

static void drop_entries(struct answer *answer, struct shown *shown)
{
    answer->result_bytes -= shown->length;
    answer->result_count -= shown->count;
    free(shown->entries);
    *shown = (struct shown){0};
}

static struct answer *own(struct recorder *recorder)
{
    return (struct answer *)(void *)((char *)recorder - offsetof(struct answer, recorder));
}

/* --- as a recorder -------------------------------------------------------------------------- */

static void keep_text(struct recorder *recorder, enum text_stream stream, const char *text,
                      size_t length)
{
    texts_append(&own(recorder)->texts, stream, text, length);
}

static void clear(struct recorder *recorder)
{
    struct answer *answer = own(recorder);
    for (size_t i = 0; i < answer->shown_count; i++)
        drop_entries(answer, &answer->shown[i]);
    answer->shown_count = 0;
    texts_clear(&answer->texts);
}

/* The place of this number; NULL: beyond the limit, or no memory. Numbers come one by one. */
static struct shown *place(struct answer *answer, size_t number)
{
    if (number < answer->shown_count)
        return &answer->shown[number];
    if (number != answer->shown_count || number >= MAX_RESULTS)
        return NULL;
    if (answer->shown_count == answer->shown_capacity) {
        size_t capacity = answer->shown_capacity ? answer->shown_capacity * 2 : 8;
        struct shown *grown = realloc(answer->shown, capacity * sizeof *grown);
        if (!grown)
            return NULL;
        answer->shown = grown;
        answer->shown_capacity = capacity;
    }
    struct shown *shown = &answer->shown[answer->shown_count++];
    *shown = (struct shown){0};
    return shown;
}

static void keep_display(struct recorder *recorder, const struct display *display)
{
    struct answer *answer = own(recorder);
    struct shown *shown = place(answer, display->number);
    if (!shown) {
        answer->cut = true;
        return;
    }
    drop_entries(answer, shown);
    struct bundle_limits limits = {.bytes = MAX_RESULTS_BYTES - answer->result_bytes,
                                   .entries = MAX_RESULTS - answer->result_count};
    _cleanup_buffer_ struct buffer rendered = {0};
    size_t count = bundle_render(display, &limits, &rendered, &answer->cut);
    if (count == 0)
        return;
    *shown = (struct shown){.length = rendered.length, .count = count};
    shown->entries = buffer_take(&rendered);
    /* The buffer may be twice as large as what is in it. */
    char *fitting = realloc(shown->entries, shown->length + 1);
    if (fitting)
        shown->entries = fitting;
    answer->result_bytes += shown->length;
    answer->result_count += shown->count;
}

static void keep_exception(struct recorder *recorder, const struct exception *exception)
{
    struct answer *answer = own(recorder);
    json_decref(answer->traceback);
    answer->traceback = exception->traceback
                            ? json_stringn(exception->traceback, exception->traceback_length)
                            : NULL;
}

static void keep_whole_text(struct recorder *recorder, enum text_stream stream, const char *path)
{
    texts_set_whole(&own(recorder)->texts, stream, path);
}

static bool is_cut(const struct recorder *recorder)
{
    const struct answer *answer = own((struct recorder *)(uintptr_t)recorder);
    return answer->cut || texts_are_cut(&answer->texts);
}

static const struct recorder_type type = {
    .text = keep_text,
    .display = keep_display,
    .exception = keep_exception,
    .clear = clear,
    .whole_text = keep_whole_text,
    .is_cut = is_cut,
};

/* --- life ----------------------------------------------------------------------------------- */

struct answer *answer_new(void)
{
    struct answer *answer = must_alloc(sizeof *answer);
    answer->recorder.type = &type;
    texts_init(&answer->texts, MAX_STREAM_BYTES);
    return answer;
}

struct answer *answer_free(struct answer *answer)
{
    if (!answer)
        return NULL;
    clear(&answer->recorder);
    free(answer->shown);
    texts_free(&answer->texts);
    json_decref(answer->traceback);
    free(answer);
    return NULL;
}

struct recorder *answer_recorder(struct answer *answer)
{
    return &answer->recorder;
}

/* --- the answer ----------------------------------------------------------------------------- */

/* The first members, of which two may be long. */
static int append_texts(const struct answer *answer, const struct answer_frame *frame,
                        struct buffer *out)
{
    int r = 0;
    if (frame->execution_id)
        r = buffer_printf(out, "\"execution_id\":\"%s\",", frame->execution_id);
    return r == 0 ? texts_render(&answer->texts, out) : r;
}

/* The members between them and the results. A new reference, NULL when memory is out. */
static json_t *front_of(const struct answer *answer, const struct answer_frame *frame)
{
    json_auto_t *front = json_object();
    int r = outputs_describe_error(frame->outputs, frame->verdict, front);
    r |= json_object_set_new(front, "traceback",
                             answer->traceback ? json_incref(answer->traceback) : json_null());
    return r == 0 ? json_incref(front) : NULL;
}

/* The members behind them. */
static json_t *back_of(const struct answer_frame *frame)
{
    json_auto_t *back = json_object();
    int r = frame->files ? json_object_set(back, "files", frame->files) : 0;
    if (frame->files_truncated)
        r |= json_object_set_new(back, "files_truncated", json_true());
    r |= outputs_describe_end(frame->outputs, frame->verdict, back);
    return r == 0 ? json_incref(back) : NULL;
}

static int append_results(const struct answer *answer, struct buffer *out)
{
    const char *separator = "";
    int r = 0;
    for (size_t i = 0; i < answer->shown_count && r == 0; i++) {
        const struct shown *shown = &answer->shown[i];
        if (shown->count == 0)
            continue;
        r = buffer_append_text(out, separator);
        if (r == 0)
            r = buffer_append(out, shown->entries, shown->length);
        separator = ",";
    }
    return r;
}

/* The results are JSON text already, so they are set between the other members as they are. */
int answer_render(const struct answer *answer, const struct answer_frame *frame, struct buffer *out)
{
    json_auto_t *front = front_of(answer, frame);
    json_auto_t *back = back_of(frame);
    if (!front || !back)
        return -ENOMEM;
    int r = buffer_append_text(out, "{");
    if (r == 0)
        r = append_texts(answer, frame, out);
    if (r == 0)
        r = buffer_append_text(out, ",");
    if (r == 0)
        r = json_text_append_members(front, out);
    if (r == 0)
        r = buffer_append_text(out, ",\"results\":[");
    if (r == 0)
        r = append_results(answer, out);
    if (r == 0)
        r = buffer_append_text(out, "],");
    if (r == 0)
        r = json_text_append_members(back, out);
    return r == 0 ? buffer_append_text(out, "}") : r;
}
