#include "library/events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "husk/limits.h"
#include "library/client.h"
#include "library/complaint.h"
#include "library/entries.h"
#include "library/gift.h"
#include "library/lines.h"
#include "library/result.h"

struct stream {
    struct husk *husk;
    const struct events_call *call;
    struct events_note *note;
    struct lines lines;
    struct husk_error *error;
    void *content; /* made from the last event; NULL: it has not come */
};

/* --- kinds of events ---------------------------------------------------------------------------- */

static void read_text(struct reading *reading, const json_t *json, struct husk_event *event)
{
    event->text = reading_required_bytes(reading, json, "text");
}

static void read_start(struct reading *reading, const json_t *json, struct husk_event *event)
{
    event->command_id = reading_text(reading, json, "command_id", "");
}

static void read_queued(struct reading *reading, const json_t *json, struct husk_event *event)
{
    event->index = reading_number(reading, json, "ahead");
}

static void read_outputs(struct reading *reading, const json_t *json, struct husk_event *event)
{
    event->index = reading_number(reading, json, "output");
    event->outputs =
        entries_outputs(reading, reading_list(reading, json, "results"), &event->output_count);
}

static void read_exception(struct reading *reading, const json_t *json, struct husk_event *event)
{
    event->error = reading_text(reading, json, "error", "");
    event->error_value = reading_text(reading, json, "error_value", "");
    event->traceback = reading_text(reading, json, "traceback", NULL);
}

static void read_prompt(struct reading *reading, const json_t *json, struct husk_event *event)
{
    event->text = reading_bytes(reading, json, "prompt");
    event->password = reading_flag(reading, json, "password");
}

static void read_file(struct reading *reading, const json_t *json, struct husk_event *event)
{
    struct husk_file *file = reading_array(reading, 1, sizeof *file);
    if (file)
        entries_file(reading, json, file);
    event->file = file;
}

static void read_index(struct reading *reading, const json_t *json, struct husk_event *event)
{
    event->index = reading_number(reading, json, "index");
}

static void read_dropped(struct reading *reading, const json_t *json, struct husk_event *event)
{
    event->index = reading_number(reading, json, "events");
}

static const struct {
    const char *name;
    enum husk_event_kind kind;
    void (*read)(struct reading *reading, const json_t *json, struct husk_event *event);
} kinds[] = {
    {"stdout", HUSK_EVENT_STDOUT, read_text},
    {"stderr", HUSK_EVENT_STDERR, read_text},
    {"result", HUSK_EVENT_RESULT, read_outputs},
    {"update", HUSK_EVENT_UPDATE, read_outputs},
    {"start", HUSK_EVENT_START, read_start},
    {"queued", HUSK_EVENT_QUEUED, read_queued},
    {"clear", HUSK_EVENT_CLEAR, NULL},
    {"error", HUSK_EVENT_ERROR, read_exception},
    {"input_request", HUSK_EVENT_INPUT, read_prompt},
    {"file", HUSK_EVENT_FILE, read_file},
    {"command", HUSK_EVENT_COMMAND, read_index},
    {"progress", HUSK_EVENT_PROGRESS, read_text},
    {"dropped", HUSK_EVENT_DROPPED, read_dropped},
};

static void read_event(struct reading *reading, const json_t *json, const char *name,
                       struct husk_event *event)
{
    for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++) {
        if (strcmp(kinds[i].name, name) != 0)
            continue;
        event->kind = kinds[i].kind;
        if (kinds[i].read)
            kinds[i].read(reading, json, event);
        return;
    }
}

/* --- what is remembered ------------------------------------------------------------------------- */

static int replace(char **kept, const char *text, struct husk_error *error)
{
    char *copy = strdup(text);
    if (!copy)
        return complain_memory(error);
    free(*kept);
    *kept = copy;
    return 0;
}

static int remember(struct events_note *note, const struct husk_event *event,
                    struct husk_error *error)
{
    if (event->kind == HUSK_EVENT_ERROR && event->traceback)
        return replace(&note->traceback, event->traceback, error);
    if (event->kind == HUSK_EVENT_START && *event->command_id)
        return replace(&note->command_id, event->command_id, error);
    if (event->kind == HUSK_EVENT_PROGRESS) {
        /* What does not fit is missing in the whole text only: the caller had it. */
        if (buffer_append(&note->lines, event->text.data, event->text.length) == 0 &&
            (event->text.length == 0 || event->text.data[event->text.length - 1] != '\n'))
            (void)buffer_append(&note->lines, "\n", 1);
    }
    return 0;
}

void events_note_free(struct events_note *note)
{
    free(note->traceback);
    free(note->command_id);
    buffer_free(&note->lines);
}

/* --- the stream --------------------------------------------------------------------------------- */

static int deliver(struct stream *stream, const struct husk_event *event)
{
    int r = remember(stream->note, event, stream->error);
    if (r < 0 || !stream->call->on_event || stream->call->on_event(event, stream->call->user) == 0)
        return r;
    return complain(stream->error, HUSK_ERROR_CANCELLED,
                    "The function that the events are for ended the call.");
}

static int take_end(struct stream *stream, struct reading *reading, const json_t *json,
                    const char *line, size_t length)
{
    char *text = gift_add(reading->gift, length + 1);
    if (!text)
        return reading_fail_memory(reading);
    memcpy(text, line, length);
    stream->call->shape->read(reading, json, text, reading->gift);
    if (reading->result == 0)
        stream->content = TAKE_POINTER(reading->gift);
    return reading->result;
}

static int take_event(struct stream *stream, char *line, size_t length, void *content)
{
    struct reading reading = {.gift = content, .error = stream->error, .http_status = 200};
    struct husk_event event = {
        .kind = HUSK_EVENT_OTHER, .text = {.data = ""}, .command_id = "", .json = line};
    const json_t *json = reading_parse(&reading, line, length);
    const char *name = json && reading_is_object(&reading, json, "an event")
                           ? reading_required_text(&reading, json, "event")
                           : "";
    int r = reading.result;
    if (r == 0 && !strcmp(name, "end")) {
        r = take_end(stream, &reading, json, line, length);
    } else if (r == 0 && strcmp(name, "keepalive") != 0) {
        read_event(&reading, json, name, &event);
        r = reading.result < 0 ? reading.result : deliver(stream, &event);
    }
    (void)gift_free(reading.gift);
    return r;
}

static int take_line(char *line, size_t length, void *user)
{
    struct stream *stream = user;
    if (stream->content)
        return complain(stream->error, HUSK_ERROR_ANSWER,
                        "The answer is not one of Husk: it goes on after its end.");
    /* Many lines may have come at once, and each may take the caller long. */
    if (client_take_cancel(stream->husk))
        return complain(stream->error, HUSK_ERROR_CANCELLED, "The call was cancelled.");
    if (length == 0)
        return 0;
    void *content = gift_new(stream->call->shape->size);
    return content ? take_event(stream, line, length, content) : complain_memory(stream->error);
}

static int take_bytes(void *user, const char *data, size_t length, struct husk_error *error)
{
    struct stream *stream = user;
    stream->error = error;
    int r = lines_feed(&stream->lines, data, length, take_line, stream);
    if (r == -ENOSPC)
        return complain(error, HUSK_ERROR_ANSWER,
                        "The answer is not one of Husk: an event is larger than any of Husk's.");
    return r == -ENOMEM ? complain_memory(error) : r;
}

int events_run(struct husk *husk, const struct exchange *exchange, const struct events_call *call,
               struct events_note *note, void **ret, struct husk_error *error)
{
    struct answer answer;
    struct stream stream = {
        .husk = husk, .call = call, .note = note, .lines = {BUFFER_LIMITED(CLIENT_LINE_BYTES)}};
    *note = (struct events_note){.lines = BUFFER_LIMITED(CLIENT_INSTALL_BYTES)};
    struct exchange streaming = *exchange;
    streaming.accept = "application/x-ndjson";
    streaming.sink = take_bytes;
    streaming.user = &stream;
    int r = exchange_run(husk, &streaming, &answer, error);
    if (r == 0) {
        exchange_answer_free(&answer);
        if (!stream.content)
            r = complain(error, HUSK_ERROR_BROKEN,
                         "The stream ended before its last event. What was asked for may have "
                         "happened, or not.");
    }
    lines_free(&stream.lines);
    if (r == 0)
        *ret = stream.content;
    else
        (void)gift_free(stream.content);
    return r;
}

int events_run_result(struct husk *husk, const struct exchange *exchange, husk_on_event on_event,
                      void *user, struct husk_result **ret, struct husk_error *error)
{
    struct events_call call = {.on_event = on_event, .user = user, .shape = &result_fetched};
    struct events_note note;
    void *content = NULL;
    int r = events_run(husk, exchange, &call, &note, &content, error);
    if (r == 0) {
        struct husk_result *result = content;
        if (!result->traceback)
            result->traceback = gift_take(content, TAKE_POINTER(note.traceback));
        if (!*result->command_id && note.command_id)
            result->command_id = gift_take(content, TAKE_POINTER(note.command_id));
        if (!result->command_id)
            result->command_id = "";
        *ret = result;
    }
    events_note_free(&note);
    return r;
}
