#include "shim/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/text.h"
#include "husk/limits.h"
#include "shim/command_result.h"
#include "shim/json_text.h"
#include "shim/kept_results.h"
#include "shim/leftovers.h"

struct commands {
    struct command_setup shared;
    struct event_streams *streams;
    const struct commands_sink *sink;
    void *user;
    struct command *first; /* of those that run; the newest */
    size_t running;
    uint64_t last_number;
    struct kept_results *kept; /* of detached ones */
};

/* --- what becomes of one -------------------------------------------------------------------- */

static void answer_detached(struct command *command)
{
    struct commands *commands = command->setup->user;
    struct shim_result_head head = {.status = EXECUTION_RUNNING};
    _cleanup_buffer_ struct buffer payload = {0};
    json_auto_t *body =
        json_pack("{s:s, s:o}", "command_id", command->id, "pid", command_pid(command));
    if (buffer_append(&payload, &head, sizeof head) == 0 &&
        json_text_append(body, JSON_COMPACT, &payload) == 0)
        commands->sink->result(commands->user, command->ticket, &payload);
}

static void on_started(struct command *command)
{
    if (command->detached)
        answer_detached(command);
}

static void deliver(struct commands *commands, struct command *command)
{
    if (command->stream)
        return command_end_stream(command);
    _cleanup_buffer_ struct buffer payload =
        BUFFER_LIMITED(sizeof(struct shim_result_head) + MAX_ANSWER_BYTES);
    command_render(command, &payload);
    if (command->detached)
        kept_results_add(commands->kept, command->id, command_summary(command), &payload);
    else
        commands->sink->result(commands->user, command->ticket, &payload);
}

static void on_ended(struct command *command)
{
    struct commands *commands = command->setup->user;
    struct command **link = &commands->first;
    while (*link != command)
        link = &(*link)->next;
    *link = command->next;
    commands->running--;
    if (command->detached && command->pid == 0)
        answer_detached(command); /* it never began, which its result says */
    commands->sink->changed(commands->user);
    deliver(commands, command);
    for (size_t i = 0; i < command->killer_count; i++)
        commands->sink->killed(commands->user, command->killers[i], 0);
    command_free(command);
}

static void on_goes_on(struct command *command)
{
    struct commands *commands = command->setup->user;
    _cleanup_buffer_ struct buffer payload = {0};
    if (last_line_progress(&command->tool->last_line, now_ms() - command->began_ms, true,
                           &payload) == 0)
        commands->sink->progress(commands->user, command->ticket, &payload);
}

static uint64_t next_number(void *user)
{
    struct commands *commands = user;
    return ++commands->last_number;
}

static const struct command_events command_events = {on_started, on_ended, on_goes_on, next_number};

/* --- what init says ------------------------------------------------------------------------- */

/* NULL: it is over, or init makes things up. */
static struct process *find_process(const struct commands *commands, uint64_t number)
{
    struct command *command = commands->first;
    while (command && command->number != number)
        command = command->next;
    return command ? command->process : NULL;
}

static void init_started(void *user, uint64_t number, int pid, int pidfd)
{
    struct process *process = find_process(user, number);
    (void)close_fd(pidfd); /* init reports the end, too; if init ends, so does everything */
    if (process)
        process_started(process, pid);
}

static void init_failed(void *user, uint64_t number, enum init_step step, int code)
{
    struct process *process = find_process(user, number);
    if (process)
        process_failed(process, step, code);
}

static void init_exited(void *user, uint64_t number, int wait_status)
{
    struct process *process = find_process(user, number);
    if (process)
        process_exited(process, wait_status);
}

static const struct init_events init_events = {init_started, init_failed, init_exited, NULL};

/* --- for the owner -------------------------------------------------------------------------- */

struct commands *commands_new(const struct command_setup *shared, struct event_streams *streams,
                              const struct commands_sink *sink, void *user)
{
    struct commands *commands = must_alloc(sizeof *commands);
    *commands =
        (struct commands){.shared = *shared, .streams = streams, .sink = sink, .user = user};
    commands->shared.events = &command_events;
    commands->shared.user = commands;
    commands->shared.leftovers = leftovers_new(shared->loop);
    commands->kept = kept_results_new();
    init_link_listen(shared->init, INIT_COMMANDS, &init_events, commands);
    return commands;
}

struct commands *commands_free(struct commands *commands)
{
    if (!commands)
        return NULL;
    while (commands->first) {
        struct command *command = commands->first;
        commands->first = command->next;
        command_free(command);
    }
    leftovers_free(commands->shared.leftovers);
    kept_results_free(commands->kept);
    free(commands);
    return NULL;
}

int commands_submit(struct commands *commands, const struct command_order *order)
{
    struct failure why;
    if (commands->running == MAX_COMMANDS)
        return -ENOSPC;
    struct command *command = command_new(&commands->shared, order, &why);
    if (!command)
        return -E2BIG;
    if (order->streams) {
        command->stream = event_stream_open(commands->streams, order->ticket, order->format);
        if (!command->stream) {
            command_free(command);
            return -ENOSPC;
        }
    }
    command->next = commands->first;
    commands->first = command;
    commands->running++;
    commands->sink->changed(commands->user);
    command_begin(command);
    return 0;
}

void commands_cancel(struct commands *commands, struct ticket ticket)
{
    for (struct command *command = commands->first; command; command = command->next) {
        if (!command->detached && same_ticket(command->ticket, ticket))
            return command_stop(command, COMMAND_LEFT);
    }
}

void commands_cancel_old(struct commands *commands, const struct connection *connection)
{
    struct command *next;
    for (struct command *command = commands->first; command; command = next) {
        next = command->next;
        if (!command->detached && !connection_knows(connection, command->ticket))
            command_stop(command, COMMAND_LEFT);
    }
}

static bool is_meant(const struct command *command, const char *reference)
{
    uint64_t pid;
    return strcmp(command->id, reference) == 0 ||
           (parse_u64(reference, 1, INT32_MAX, &pid) == 0 && command->pid == (int)pid);
}

static struct command *find_running(const struct commands *commands, const char *reference)
{
    struct command *command = commands->first;
    while (command && !is_meant(command, reference))
        command = command->next;
    return command;
}

/* The newest of that pid: pids are used again. */
static const struct buffer *find_kept(const struct commands *commands, const char *reference)
{
    const struct buffer *found = kept_results_find(commands->kept, reference);
    uint64_t pid;
    if (found || parse_u64(reference, 1, INT32_MAX, &pid) < 0)
        return found;
    json_auto_t *notes = kept_results_notes(commands->kept);
    for (size_t i = json_array_size(notes); i-- > 0;) {
        const json_t *note = json_array_get(notes, i);
        if (json_integer_value(json_object_get(note, "pid")) == (json_int_t)pid)
            return kept_results_find(commands->kept,
                                     json_string_value(json_object_get(note, "command_id")));
    }
    return NULL;
}

int commands_kill(struct commands *commands, const char *reference, struct ticket ticket)
{
    struct command *command = find_running(commands, reference);
    if (!command) {
        if (!find_kept(commands, reference))
            return -ENOENT;
        commands->sink->killed(commands->user, ticket, 0);
        return 0;
    }
    if (command->killer_count == MAX_WAITING_REQUESTS) {
        commands->sink->killed(commands->user, ticket, -EBUSY);
        return 0;
    }
    command->killers[command->killer_count++] = ticket;
    command_stop(command, COMMAND_KILLED);
    return 0;
}

int commands_list(const struct commands *commands, struct buffer *payload)
{
    struct shim_result_head head = {.status = EXECUTION_OK};
    json_t *list = kept_results_notes(commands->kept);
    size_t kept = json_array_size(list);
    for (const struct command *command = commands->first; command; command = command->next)
        (void)json_array_insert_new(list, kept, command_summary(command)); /* the oldest first */
    json_auto_t *body = json_pack("{s:o}", "commands", list);
    int r = buffer_append(payload, &head, sizeof head);
    return r == 0 ? json_text_append(body, JSON_COMPACT, payload) : r;
}

int commands_fetch(const struct commands *commands, const char *reference, struct buffer *payload)
{
    struct command *command = find_running(commands, reference);
    if (command) {
        command_render(command, payload);
        return 0;
    }
    const struct buffer *kept = find_kept(commands, reference);
    return kept ? buffer_append(payload, kept->data, kept->length) : -ENOENT;
}

void commands_swept(struct commands *commands)
{
    struct command *next;
    for (struct command *command = commands->first; command; command = next) {
        next = command->next;
        command_stop(command, COMMAND_SWEPT);
    }
}

void commands_stream_changed(struct commands *commands)
{
    for (struct command *command = commands->first; command; command = command->next)
        command_stream_changed(command);
}

size_t commands_running(const struct commands *commands)
{
    return commands->running;
}
