#include "shim/command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "shim/command_result.h"
#include "shim/kernel_environment.h"
#include "shim/oom.h"
#include "shim/outputs.h"

enum {
    RETRY_MILLISECONDS = 10
};

/* --- its output ----------------------------------------------------------------------------- */

static void put_output(struct command *command, enum text_stream stream, const char *text,
                       size_t length)
{
    if (command->stream) {
        struct recorder *recorder = event_stream_recorder(command->stream);
        recorder->type->text(recorder, stream, text, length);
        return;
    }
    whole_text_add(&command->whole[stream], &command->texts.streams[stream], text, length);
    texts_append(&command->texts, stream, text, length);
    if (command->tool)
        last_line_add(&command->tool->last_line, text, length);
}

static void on_output(void *user, enum text_stream stream, const char *text, size_t length)
{
    put_output(user, stream, text, length);
}

void command_stream_changed(struct command *command)
{
    if (command->process)
        process_hold(command->process, command->stream && event_stream_full(command->stream));
}

/* --- one process after the other ------------------------------------------------------------ */

static void start_step(struct command *command);

static void finish(struct command *command)
{
    timer_disarm(command->deadline);
    command->over = true;
    command->duration_ms = now_ms() - command->began_ms;
    for (size_t i = 0; i < TEXT_STREAMS; i++) {
        const char *path = whole_text_end(&command->whole[i]);
        if (path)
            texts_set_whole(&command->texts, (enum text_stream)i, path);
    }
    command->files =
        home_changes_since(command->setup->changes, &command->began, &command->files_truncated);
    log_event(LOG_INFO, "command ended", "command", command->id, "pid", log_number(command->pid),
              "status", execution_status_name(command->status), "exit_code",
              log_number(command_exit_code(&command->end)), "ms",
              log_number((int64_t)command->duration_ms), NULL);
    command->setup->events->ended(command);
}

/* A process could not be started: as a shell would say it. */
static void tell_failure(struct command *command)
{
    _cleanup_free_ char *line = must_format("husk: %s\n", command->error_value);
    put_output(command, STREAM_STDERR, line, strlen(line));
}

static void conclude_step(struct command *command, const struct process_end *end)
{
    bool out_of_memory = oom_kills(command->setup->oom_fd) > command->oom_kills;
    command->end = *end;
    command_judge(command, out_of_memory);
    if (end->kind == PROCESS_FAILED && command->status == EXECUTION_ERROR)
        tell_failure(command);
    (void)json_array_append_new(command->outcomes,
                                command_outcome(command, now_ms() - command->step_began));
    command->step++;
    command->step_began = now_ms();
    if (command->status == EXECUTION_OK && command->step < json_array_size(command->steps))
        start_step(command);
    else
        finish(command);
}

static void on_started(void *user, int pid)
{
    struct command *command = user;
    if (command->step > 0)
        return;
    command->pid = pid;
    if (command->stream)
        event_stream_put(command->stream, "start",
                         json_pack("{s:s, s:i}", "command_id", command->id, "pid", pid));
    command->setup->events->started(command);
}

static void on_ended(void *user, const struct process_end *end)
{
    struct command *command = user;
    command->process = process_free(command->process);
    conclude_step(command, end);
}

static const struct process_events process_events = {on_started, on_output, on_ended};

/* Arguments of the step: of the shell for a text. Ended by NULL. */
static size_t arguments_of(const json_t *step, const char *arguments[MAX_COMMAND_ARGUMENTS + 1])
{
    size_t count = 0;
    json_t *argument;
    if (json_is_string(step)) {
        arguments[count++] = "/bin/bash";
        arguments[count++] = "-lc";
        arguments[count++] = json_string_value(step);
    }
    size_t i;
    json_array_foreach(step, i, argument) arguments[count++] = json_string_value(argument);
    arguments[count] = NULL;
    return count;
}

static void start_step(struct command *command)
{
    const struct command_setup *setup = command->setup;
    const char *arguments[MAX_COMMAND_ARGUMENTS + 1];
    (void)arguments_of(json_array_get(command->steps, command->step), arguments);
    bool with_input = command->input && command->step == 0;
    command->number = setup->events->number(setup->user);
    struct process_order order = {
        .loop = setup->loop,
        .init = setup->init,
        .name = {INIT_COMMANDS, command->number},
        .command = {.arguments = arguments,
                    .directory = command->directory,
                    .apart = true,
                    .environment = command->environment.data,
                    .environment_bytes = command->environment.length},
        .leftovers = setup->leftovers,
        .null_fd = setup->null_fd,
        .input = with_input ? json_string_value(command->input) : NULL,
        .input_length = with_input ? json_string_length(command->input) : 0,
        .events = &process_events,
        .user = command,
    };
    struct failure why;
    command->process = process_start(&order, &why);
    if (!command->process && why.code == EAGAIN)
        return timer_arm(command->retry, RETRY_MILLISECONDS);
    if (!command->process)
        return conclude_step(command, &(struct process_end){.kind = PROCESS_FAILED,
                                                            .value = why.code,
                                                            .step = INIT_STEP_FORK});
    if (command->stream && command->several)
        event_stream_put(command->stream, "command",
                         json_pack("{s:I}", "index", (json_int_t)command->step));
    command_stream_changed(command);
}

/* --- stopping ------------------------------------------------------------------------------- */

void command_stop(struct command *command, enum command_stop reason)
{
    if (command->stream && reason != COMMAND_SWEPT)
        event_stream_hurry(command->stream);
    bool waits = timer_armed(command->retry);
    if (!waits && !process_runs(command->process))
        return; /* it has ended, only its output is on its way */
    if (command->stop == COMMAND_NOT_STOPPED)
        command->stop = reason;
    if (reason == COMMAND_SWEPT)
        return; /* somebody else sees to it */
    if (!waits)
        return process_stop(command->process);
    timer_disarm(command->retry);
    conclude_step(command, &(struct process_end){.kind = PROCESS_FAILED, .value = EAGAIN});
}

static void retry_expired(struct timer *timer _unused_, void *user)
{
    start_step(user);
}

static void deadline_expired(struct timer *timer _unused_, void *user)
{
    command_stop(user, COMMAND_TIMEOUT);
}

/* --- life ----------------------------------------------------------------------------------- */

static int set_environment(struct command *command, const json_t *env, struct failure *why)
{
    const struct buffer *common = command->setup->environment;
    int r = buffer_append(&command->environment, common->data, common->length);
    return r < 0 ? fail(why, r, "environment")
                 : environment_append(&command->environment, env, why);
}

static void progress_expired(struct timer *timer, void *user)
{
    struct command *command = user;
    command->setup->events->goes_on(command);
    timer_arm(timer, PROGRESS_MILLISECONDS);
}

static struct command_tool *tool_new(struct command *command, const struct tool_order *order)
{
    struct command_tool *tool = must_alloc(sizeof *tool);
    tool->links = order->links;
    tool->note = order->note ? must_copy(order->note) : NULL;
    (void)format_text(tool->sandbox, sizeof tool->sandbox, "%s", order->sandbox);
    if (order->progress) {
        tool->progress = timer_add(command->setup->loop, progress_expired, command);
        timer_arm(tool->progress, PROGRESS_MILLISECONDS);
    }
    return tool;
}

static void tool_free(struct command_tool *tool)
{
    if (!tool)
        return;
    timer_remove(tool->progress);
    free(tool->note);
    free(tool);
}

struct command *command_new(const struct command_setup *setup, const struct command_order *order,
                            struct failure *why)
{
    static const char *const names[] = {[STREAM_STDOUT] = "stdout", [STREAM_STDERR] = "stderr"};
    struct command *command = must_alloc(sizeof *command);
    *command = (struct command){.setup = setup,
                                .ticket = order->ticket,
                                .detached = order->detach,
                                .several = order->steps != NULL,
                                .steps = json_array(),
                                .outcomes = json_array(),
                                .input = json_incref(order->input),
                                .timeout_ms = order->timeout_ms};
    (void)format_text(command->id, sizeof command->id, "%s", order->id);
    for (size_t i = 0; i < command_order_steps(order); i++)
        (void)json_array_append(command->steps, (json_t *)(uintptr_t)command_order_step(order, i));
    if (order->directory)
        command->directory = must_copy(order->directory);
    texts_init(&command->texts, order->tool.sandbox ? MAX_TOOL_TEXT_BYTES : MAX_STREAM_BYTES);
    if (order->tool.sandbox)
        command->tool = tool_new(command, &order->tool);
    for (size_t i = 0; i < TEXT_STREAMS; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "command-%.8s-%s.txt", command->id, names[i]);
        whole_text_init(&command->whole[i], setup->home_fd, name);
    }
    command->deadline = timer_add(setup->loop, deadline_expired, command);
    command->retry = timer_add(setup->loop, retry_expired, command);
    return set_environment(command, order->env, why) < 0 ? command_free(command) : command;
}

struct command *command_free(struct command *command)
{
    if (!command)
        return NULL;
    process_free(command->process);
    timer_remove(command->deadline);
    timer_remove(command->retry);
    tool_free(command->tool);
    texts_free(&command->texts);
    for (size_t i = 0; i < TEXT_STREAMS; i++)
        (void)whole_text_end(&command->whole[i]);
    buffer_free(&command->environment);
    json_decref(command->steps);
    json_decref(command->outcomes);
    json_decref(command->input);
    json_decref(command->files);
    free(command->directory);
    free(command);
    return NULL;
}

void command_begin(struct command *command)
{
    command->began = home_changes_mark(command->setup->changes);
    command->began_ms = command->step_began = now_ms();
    command->started_at = wall_seconds();
    command->oom_kills = oom_kills(command->setup->oom_fd);
    timer_arm(command->deadline, command->timeout_ms);
    start_step(command);
}
