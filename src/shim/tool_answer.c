#include "shim/tool_answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/memory.h"
#include "base/quoted.h"
#include "husk/limits.h"
#include "shim/bundle.h"
#include "shim/json_text.h"
#include "shim/last_line.h"
#include "shim/order.h"
#include "shim/tool_content.h"
#include "shim/transcript.h"

/* What one display shows. */
struct piece {
    char *content; /* items, joined by commas; NULL: none */
    char *entries; /* of "results", likewise */
};

struct tool_answer {
    struct recorder recorder;
    char *sandbox;
    char *note; /* NULL: none */
    bool links;
    struct transcript streams[TEXT_STREAMS];
    char *whole_texts[TEXT_STREAMS]; /* paths; NULL: none */
    struct piece *pieces;            /* by number; room for MAX_RESULTS once there is one */
    size_t piece_count;
    struct tool_room room;
    size_t most_images; /* bytes */
    size_t entry_bytes;
    char *traceback; /* NULL: none */
    size_t traceback_length;
    bool cut;
    struct last_line last_line;
};

static struct tool_answer *own(struct recorder *recorder)
{
    return (struct tool_answer *)(void *)((char *)recorder -
                                          offsetof(struct tool_answer, recorder));
}

/* --- as a recorder -------------------------------------------------------------------------- */

static void keep_text(struct recorder *recorder, enum text_stream stream, const char *text,
                      size_t length)
{
    struct tool_answer *answer = own(recorder);
    transcript_append(&answer->streams[stream], text, length);
    last_line_add(&answer->last_line, text, length);
}

static void drop_piece(struct piece *piece)
{
    free(piece->content);
    free(piece->entries);
    *piece = (struct piece){0};
}

static void clear(struct recorder *recorder)
{
    struct tool_answer *answer = own(recorder);
    for (size_t i = 0; i < answer->piece_count; i++)
        drop_piece(&answer->pieces[i]);
    answer->piece_count = 0;
    answer->room =
        (struct tool_room){.text = MAX_TOOL_RESULTS_BYTES, .images = answer->most_images};
    answer->entry_bytes = 0;
    for (size_t i = 0; i < TEXT_STREAMS; i++)
        transcript_clear(&answer->streams[i]);
}

/* The place of this number; NULL: beyond the limit, or no memory. Numbers come one by one. */
static struct piece *place(struct tool_answer *answer, size_t number)
{
    if (number > answer->piece_count || number >= MAX_RESULTS)
        return NULL;
    if (!answer->pieces)
        answer->pieces = calloc(MAX_RESULTS, sizeof *answer->pieces);
    if (answer->pieces && number == answer->piece_count)
        answer->piece_count++;
    return answer->pieces ? &answer->pieces[number] : NULL;
}

/* The types of a display without the data of its images. A new reference. */
static json_t *without_media(const json_t *content)
{
    json_t *bundle = json_copy(json_object_get(content, "data"));
    const char *type;
    json_t *value;
    void *next;
    json_object_foreach_safe(bundle, next, type, value)
    {
        if (tool_content_is_media(type))
            (void)json_object_set_new(bundle, type, json_string("(in content)"));
    }
    return json_pack("{s:o, s:O*}", "data", bundle ? bundle : json_object(), "metadata",
                     json_object_get(content, "metadata"));
}

static char *entries_of(struct tool_answer *answer, const struct display *display)
{
    json_auto_t *content = without_media(display->content);
    struct display shown = *display;
    struct bundle_limits limits = {.bytes = MAX_TOOL_RESULTS_BYTES - answer->entry_bytes,
                                   .entries = MAX_RESULTS};
    _cleanup_buffer_ struct buffer entries = {0};
    shown.content = content;
    if (!content || bundle_render(&shown, &limits, &entries, &answer->cut) == 0)
        return NULL;
    answer->entry_bytes += entries.length;
    return buffer_take(&entries);
}

/* What an update replaces does not give its room back: who updates without end sees no end. */
static void keep_display(struct recorder *recorder, const struct display *display)
{
    struct tool_answer *answer = own(recorder);
    struct piece *piece = place(answer, display->number);
    if (!piece) {
        answer->cut = true;
        return;
    }
    _cleanup_buffer_ struct buffer content = {0};
    int r = tool_content_display(display->content, &answer->room, &content, &answer->cut);
    answer->cut |= r < 0;
    drop_piece(piece);
    piece->content = r == 0 && content.length ? buffer_take(&content) : NULL;
    piece->entries = entries_of(answer, display);
}

static void keep_exception(struct recorder *recorder, const struct exception *exception)
{
    struct tool_answer *answer = own(recorder);
    free(answer->traceback);
    answer->traceback_length = exception->traceback ? exception->traceback_length : 0;
    answer->traceback =
        exception->traceback ? strndup(exception->traceback, answer->traceback_length) : NULL;
}

static void keep_whole_text(struct recorder *recorder, enum text_stream stream, const char *path)
{
    struct tool_answer *answer = own(recorder);
    free(answer->whole_texts[stream]);
    answer->whole_texts[stream] = must_copy(path);
}

static bool is_cut(const struct recorder *recorder)
{
    const struct tool_answer *answer = own((struct recorder *)(uintptr_t)recorder);
    return answer->cut || transcript_is_cut(&answer->streams[STREAM_STDOUT]) ||
           transcript_is_cut(&answer->streams[STREAM_STDERR]);
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

struct tool_answer *tool_answer_new(const struct tool_order *order)
{
    struct tool_answer *answer = must_alloc(sizeof *answer);
    answer->recorder.type = &type;
    answer->sandbox = must_copy(order->sandbox);
    answer->note = order->note ? must_copy(order->note) : NULL;
    answer->links = order->links;
    answer->most_images = order->small ? MAX_TOOL_SMALL_IMAGES_BYTES : MAX_TOOL_IMAGES_BYTES;
    for (size_t i = 0; i < TEXT_STREAMS; i++)
        transcript_init(&answer->streams[i], MAX_TOOL_TEXT_BYTES);
    clear(&answer->recorder);
    return answer;
}

void tool_answer_empty(struct tool_answer *answer)
{
    clear(&answer->recorder);
    answer->cut = true;
    answer->traceback_length = 0;
}

struct tool_answer *tool_answer_free(struct tool_answer *answer)
{
    if (!answer)
        return NULL;
    clear(&answer->recorder);
    free(answer->pieces);
    for (size_t i = 0; i < TEXT_STREAMS; i++)
        free(answer->whole_texts[i]);
    free(answer->traceback);
    free(answer->sandbox);
    free(answer->note);
    free(answer);
    return NULL;
}

struct recorder *tool_answer_recorder(struct tool_answer *answer)
{
    return &answer->recorder;
}

/* --- what to do next ------------------------------------------------------------------------ */

/* For the errors that code cannot know the cure for. */
static const char *advice_for(const char *error, const struct verdict *verdict)
{
    static const struct {
        const char *error, *advice;
    } known[] = {
        {"ModuleNotFoundError",
         "This package is not installed in the sandbox: install_packages installs it. (The name to "
         "install may differ from the name to import.)"},
        {"TimeoutError", "Run it again with a larger timeout_seconds, or do it in smaller steps."},
        {"OutOfMemory", "Work on smaller pieces of the data, or create a sandbox with a larger "
                        "memory_mb."},
        {"KernelDied", "Something in the code ended the Python process. Change the code before "
                       "running it again."},
        {"StdinNotImplementedError",
         "Nobody can answer input() here. Pass the lines it shall read as stdin."},
    };
    for (size_t i = 0; error && i < ARRAY_LENGTH(known); i++) {
        if (strcmp(error, known[i].error) == 0)
            return known[i].advice;
    }
    return verdict->status == EXECUTION_ERROR ? "Correct the code and run it again." : "";
}

static const char *state_after(const struct verdict *verdict)
{
    if (verdict->state_lost)
        return verdict->status == EXECUTION_OK || verdict->status == EXECUTION_ERROR
                   ? "The kernel had been replaced before this code ran: variables and imports "
                     "from "
                     "before are lost, files are kept."
                   : "The kernel was replaced: variables and imports are lost, files are kept.";
    return verdict->status == EXECUTION_OK ? ""
                                           : "Variables, imports and files from before are kept.";
}

static int append_verdict(const struct tool_answer *answer, const struct tool_frame *frame,
                          struct buffer *out)
{
    json_auto_t *error = json_object();
    if (outputs_describe_error(frame->outputs, frame->verdict, error) < 0)
        return -ENOMEM;
    const char *name = json_string_value(json_object_get(error, "error"));
    const char *value = json_string_value(json_object_get(error, "error_value"));
    const char *state = state_after(frame->verdict);
    _cleanup_buffer_ struct buffer text = {0};
    int r = 0;
    if (answer->traceback_length > 0)
        r = buffer_append(&text, answer->traceback, answer->traceback_length);
    if (r == 0 && name && (answer->traceback_length == 0 || frame->verdict->error))
        r = buffer_printf(&text, "%s%s: %s", text.length ? "\n" : "", name, value ? value : "");
    const char *advice = name ? advice_for(name, frame->verdict) : "";
    if (r == 0 && (*advice || *state))
        r = buffer_printf(&text, "%s%s%s%s", text.length ? "\n\n" : "", advice,
                          *advice && *state ? " " : "", state);
    return r == 0 && text.length ? tool_content_text(out, text.data, text.length) : r;
}

/* --- the result ----------------------------------------------------------------------------- */

static int append_stream(const struct tool_answer *answer, enum text_stream stream,
                         struct buffer *out)
{
    return tool_content_stream(&answer->streams[stream], answer->whole_texts[stream], stream, out);
}

static int append_pieces(const struct tool_answer *answer, struct buffer *out)
{
    int r = 0;
    for (size_t i = 0; i < answer->piece_count && r == 0; i++) {
        const char *content = answer->pieces[i].content;
        if (content && out->length)
            r = buffer_append_text(out, ",");
        if (content && r == 0)
            r = buffer_append_text(out, content);
    }
    return r;
}

/* `out` is empty, so that its length tells whether a comma is due. */
static int append_content(const struct tool_answer *answer, const struct tool_frame *frame,
                          struct buffer *out)
{
    static const char silent[] =
        "(no output: print something, or end with an expression, to see its value)";
    int r = append_stream(answer, STREAM_STDOUT, out);
    if (r == 0)
        r = append_stream(answer, STREAM_STDERR, out);
    if (r == 0)
        r = append_pieces(answer, out);
    if (r == 0)
        r = append_verdict(answer, frame, out);
    if (r == 0)
        r = tool_content_files(answer->sandbox, answer->links, frame->files, out);
    if (r == 0 && out->length == 0)
        r = tool_content_text(out, silent, strlen(silent));
    return r == 0 && answer->note ? tool_content_text(out, answer->note, strlen(answer->note)) : r;
}

/* The members of the object before and behind "results". */
static int append_members(json_t *object, struct buffer *out)
{
    size_t brace = out->length;
    int r = json_text_append(object, JSON_COMPACT, out);
    if (r < 0)
        return r;
    out->length -= 2;
    memmove(out->data + brace, out->data + brace + 1, out->length - brace);
    return 0;
}

static int append_text_member(const struct tool_answer *answer, enum text_stream stream,
                              const char *key, struct buffer *out)
{
    _cleanup_buffer_ struct buffer text = {0};
    int r = transcript_render(&answer->streams[stream], answer->whole_texts[stream], &text);
    if (r == 0)
        r = buffer_append_text(out, key);
    return r == 0 ? quoted_append(out, text.data, text.length) : r;
}

static int append_entries(const struct tool_answer *answer, struct buffer *out)
{
    const char *separator = "";
    int r = buffer_append_text(out, ",\"results\":[");
    for (size_t i = 0; i < answer->piece_count && r == 0; i++) {
        if (!answer->pieces[i].entries)
            continue;
        r = buffer_printf(out, "%s%s", separator, answer->pieces[i].entries);
        separator = ",";
    }
    return r == 0 ? buffer_append_text(out, "],") : r;
}

static int append_structured(const struct tool_answer *answer, const struct tool_frame *frame,
                             struct buffer *out)
{
    json_auto_t *front = json_object();
    json_auto_t *back = json_pack("{s:O}", "files", frame->files);
    int r = outputs_describe_error(frame->outputs, frame->verdict, front);
    json_t *traceback = answer->traceback_length
                            ? json_stringn(answer->traceback, answer->traceback_length)
                            : json_null();
    if (r < 0 || !back || json_object_set_new(front, "traceback", traceback) < 0 ||
        (frame->files_truncated && json_object_set_new(back, "files_truncated", json_true()) < 0) ||
        outputs_describe_end(frame->outputs, frame->verdict, back) < 0)
        return -ENOMEM;
    r = buffer_printf(out, "{\"sandbox_id\":\"%s\"", answer->sandbox);
    if (r == 0)
        r = append_text_member(answer, STREAM_STDOUT, ",\"stdout\":", out);
    if (r == 0)
        r = append_text_member(answer, STREAM_STDERR, ",\"stderr\":", out);
    if (r == 0)
        r = buffer_append_text(out, ",");
    if (r == 0)
        r = append_members(front, out);
    if (r == 0)
        r = append_entries(answer, out);
    if (r == 0)
        r = append_members(back, out);
    return r == 0 ? buffer_append_text(out, "}") : r;
}

/* An error is something that the model can do something about. Who was interrupted was interrupted on purpose. */
int tool_answer_render(const struct tool_answer *answer, const struct tool_frame *frame,
                       struct buffer *out)
{
    enum execution_status status = frame->verdict->status;
    bool is_error = status != EXECUTION_OK && status != EXECUTION_INTERRUPTED;
    _cleanup_buffer_ struct buffer content = BUFFER_LIMITED(MAX_ANSWER_BYTES);
    int r = append_content(answer, frame, &content);
    if (r == 0)
        r = buffer_append_text(out, "\"content\":[");
    if (r == 0)
        r = buffer_append(out, content.data, content.length);
    if (r == 0)
        r = buffer_append_text(out, "],\"structuredContent\":");
    if (r == 0)
        r = append_structured(answer, frame, out);
    return r == 0 ? buffer_append_text(out, is_error ? ",\"isError\":true" : ",\"isError\":false")
                  : r;
}

int tool_answer_progress(const struct tool_answer *answer, uint64_t elapsed_ms, bool running,
                         struct buffer *out)
{
    return last_line_progress(&answer->last_line, elapsed_ms, running, out);
}
