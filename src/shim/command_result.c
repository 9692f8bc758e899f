#include "shim/command_result.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/text.h"
#include "shim/command_tool.h"
#include "shim/json_text.h"
#include "shim/outputs.h"

enum {
    CANNOT_EXECUTE = 126,
    NOT_FOUND = 127,
    BY_SIGNAL = 128,
    KILLED = BY_SIGNAL + SIGKILL,
    MAX_QUOTED_BYTES = 120,
};

/* --- how it ended --------------------------------------------------------------------------- */

int command_exit_code(const struct process_end *end)
{
    switch (end->kind) {
    case PROCESS_EXITED:
        return end->value;
    case PROCESS_SIGNALLED:
        return BY_SIGNAL + end->value;
    case PROCESS_FAILED:
        return end->step == INIT_STEP_EXECUTE && end->value == ENOENT ? NOT_FOUND : CANNOT_EXECUTE;
    case PROCESS_LOST:
        break;
    }
    return KILLED;
}

json_t *command_pid(const struct command *command)
{
    return command->pid > 0 ? json_integer(command->pid) : json_null();
}

static json_t *signal_name(const struct process_end *end)
{
    if (end->kind != PROCESS_SIGNALLED && end->kind != PROCESS_LOST)
        return json_null();
    int number = end->kind == PROCESS_LOST ? SIGKILL : end->value;
    const char *name = sigabbrev_np(number);
    return name ? json_sprintf("SIG%s", name) : json_sprintf("SIG%d", number);
}

/* Cut to what a sentence can hold; what is executed may be any text. */
static const char *quoted(const char *text, char out[MAX_QUOTED_BYTES + 8])
{
    size_t length = strlen(text);
    size_t taken = utf8_cut(text, length, MAX_QUOTED_BYTES);
    (void)snprintf(out, MAX_QUOTED_BYTES + 8, "%.*s%s", (int)taken, text,
                   taken < length ? "…" : "");
    return out;
}

static void say_not_started(struct command *command)
{
    const struct process_end *end = &command->end;
    const json_t *step = json_array_get(command->steps, command->step);
    const char *program =
        json_is_string(step) ? "/bin/bash" : json_string_value(json_array_get(step, 0));
    char shown[MAX_QUOTED_BYTES + 8];
    size_t size = sizeof command->error_value;
    const char *reason = strerror(end->value);
    if (end->step == INIT_STEP_DIRECTORY)
        (void)snprintf(command->error_value, size, "cwd: %s: %s",
                       quoted(command->directory ? command->directory : "/home/user", shown),
                       reason);
    else if (end->step != INIT_STEP_EXECUTE)
        (void)snprintf(command->error_value, size, "%s: cannot be started: %s%s",
                       quoted(program, shown), reason,
                       end->value == EAGAIN ? " (the sandbox has as many processes as it may have)"
                                            : "");
    else
        (void)snprintf(command->error_value, size, "%s: %s", quoted(program, shown),
                       end->value == ENOENT && !strchr(program, '/') ? "command not found"
                                                                     : reason);
}

static void say(struct command *command, enum execution_status status, const char *sentence)
{
    command->status = status;
    (void)snprintf(command->error_value, sizeof command->error_value, "%s", sentence);
}

void command_judge(struct command *command, bool out_of_memory)
{
    const struct process_end *end = &command->end;
    char sentence[128];
    switch (command->stop) {
    case COMMAND_TIMEOUT:
        (void)snprintf(sentence, sizeof sentence,
                       "the command did not finish within %g second%s and was killed",
                       (double)command->timeout_ms / 1000, command->timeout_ms == 1000 ? "" : "s");
        return say(command, EXECUTION_TIMEOUT, sentence);
    case COMMAND_KILLED:
    case COMMAND_LEFT:
        return say(command, EXECUTION_INTERRUPTED,
                   "the command was killed, as somebody asked for it");
    case COMMAND_SWEPT:
        return say(
            command, EXECUTION_DIED,
            "everything in the sandbox was killed, because no kernel could be started beside it");
    case COMMAND_NOT_STOPPED:
        break;
    }
    /* A shell whose child was killed says so by its exit code. */
    if (out_of_memory && command_exit_code(end) == KILLED)
        return say(command, EXECUTION_DIED,
                   "the sandbox used more memory than it may, and the command was killed");
    say(command, end->kind == PROCESS_EXITED && end->value == 0 ? EXECUTION_OK : EXECUTION_ERROR,
        "");
    if (end->kind == PROCESS_FAILED)
        say_not_started(command);
}

const char *command_error_name(const struct command *command)
{
    if (command->status == EXECUTION_TIMEOUT)
        return "TimeoutError";
    if (command->status == EXECUTION_INTERRUPTED)
        return "Interrupted";
    if (command->status == EXECUTION_DIED)
        return command->stop == COMMAND_SWEPT ? "Swept" : "OutOfMemory";
    return command->status == EXECUTION_ERROR && command->end.kind == PROCESS_FAILED ? "NotStarted"
                                                                                     : NULL;
}

json_t *command_outcome(const struct command *command, uint64_t duration_ms)
{
    return json_pack("{s:O, s:s, s:i, s:o, s:I}", "command",
                     json_array_get(command->steps, command->step), "status",
                     execution_status_name(command->status), "exit_code",
                     command_exit_code(&command->end), "signal", signal_name(&command->end),
                     "duration_ms", (json_int_t)duration_ms);
}

/* --- the answer ----------------------------------------------------------------------------- */

/* "commands" of a list: those that are over, the one that runs, those that did not run. */
static json_t *list_of_steps(const struct command *command)
{
    json_t *list = json_copy(command->outcomes);
    size_t i;
    json_t *step;
    json_array_foreach(command->steps, i, step)
    {
        if (i < json_array_size(command->outcomes))
            continue;
        bool runs = !command->over && i == command->step;
        (void)json_array_append_new(list, json_pack("{s:O, s:s, s:n, s:n, s:i}", "command", step,
                                                    "status", runs ? "running" : "not_run",
                                                    "exit_code", "signal", "duration_ms", 0));
    }
    return list;
}

static uint64_t duration_of(const struct command *command)
{
    return command->over ? command->duration_ms : now_ms() - command->began_ms;
}

/* Everything but the texts. */
static json_t *members_of(const struct command *command, bool truncated)
{
    bool over = command->over;
    const char *error = over ? command_error_name(command) : NULL;
    json_t *members =
        json_pack("{s:o, s:o, s:s?, s:s?, s:s, s:I, s:b}", /* */
                  "exit_code", over ? json_integer(command_exit_code(&command->end)) : json_null(),
                  "signal", over ? signal_name(&command->end) : json_null(), "error", error,
                  "error_value", error ? command->error_value : NULL, "status",
                  execution_status_name(over ? command->status : EXECUTION_RUNNING), "duration_ms",
                  (json_int_t)duration_of(command), "truncated", truncated);
    if (command->several)
        (void)json_object_set_new(members, "commands", list_of_steps(command));
    return members;
}

static struct shim_result_head head_of(const struct command *command)
{
    return (struct shim_result_head){.status = command->over ? command->status : EXECUTION_RUNNING,
                                     .duration_ms = duration_of(command)};
}

int command_result_append(const struct command *command, struct buffer *out)
{
    json_auto_t *members = members_of(command, texts_are_cut(&command->texts));
    if (command->files)
        (void)json_object_set(members, "files", command->files);
    if (command->files_truncated)
        (void)json_object_set_new(members, "files_truncated", json_true());
    json_auto_t *front =
        json_pack("{s:s, s:o}", "command_id", command->id, "pid", command_pid(command));
    int r = buffer_append_text(out, "{");
    if (r == 0 && command->tool)
        r = buffer_printf(out, "\"sandbox_id\":\"%s\",", command->tool->sandbox);
    if (r == 0)
        r = json_text_append_members(front, out);
    if (r == 0)
        r = buffer_append_text(out, ",");
    if (r == 0)
        r = texts_render(&command->texts, out);
    if (r == 0)
        r = buffer_append_text(out, ",");
    if (r == 0)
        r = json_text_append_members(members, out);
    return r == 0 ? buffer_append_text(out, "}") : r;
}

static int render(const struct command *command, struct buffer *payload)
{
    return command->tool && command->over ? command_tool_append(command, payload)
                                          : command_result_append(command, payload);
}

void command_render(struct command *command, struct buffer *payload)
{
    struct shim_result_head head = head_of(command);
    (void)buffer_append(payload, &head, sizeof head);
    if (render(command, payload) == 0)
        return;
    /* Without its output it is small. */
    texts_clear(&command->texts);
    payload->length = sizeof head;
    (void)render(command, payload);
}

void command_end_stream(struct command *command)
{
    struct event_stream *stream = TAKE_POINTER(command->stream);
    struct shim_result_head head = head_of(command);
    size_t i;
    json_t *file;
    json_array_foreach(command->files, i, file) event_stream_put(stream, "file", json_incref(file));
    struct recorder *recorder = event_stream_recorder(stream);
    json_t *end = members_of(command, recorder->type->is_cut(recorder));
    if (command->files_truncated)
        (void)json_object_set_new(end, "files_truncated", json_true());
    event_stream_finish(stream, end, &head);
}

json_t *command_summary(const struct command *command)
{
    char started[TIMESTAMP_SIZE];
    format_timestamp(command->started_at, started);
    json_auto_t *whole = command->several ? json_incref(command->steps)
                                          : json_incref(json_array_get(command->steps, 0));
    _cleanup_free_ char *dumped = json_is_string(whole) ? NULL : json_dumps(whole, JSON_COMPACT);
    const char *text = dumped ? dumped : json_string_value(whole);
    size_t shown = text ? utf8_cut(text, strlen(text), MAX_SHOWN_COMMAND_BYTES) : 0;
    bool over = command->over;
    return json_pack("{s:s, s:o, s:s%, s:b, s:s, s:s, s:o, s:o, s:I}",       /* */
                     "command_id", command->id, "pid", command_pid(command), /* */
                     "command", text ? text : "", shown,                     /* */
                     "detached", command->detached, "started_at", started, "status",
                     execution_status_name(over ? command->status : EXECUTION_RUNNING), "exit_code",
                     over ? json_integer(command_exit_code(&command->end)) : json_null(), "signal",
                     over ? signal_name(&command->end) : json_null(), "duration_ms",
                     (json_int_t)duration_of(command));
}
