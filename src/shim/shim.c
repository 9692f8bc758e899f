#include "shim/shim.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/log.h"
#include "base/memory.h"
#include "husk/limits.h"
#include "husk/shim_protocol.h"
#include "shim/commands.h"
#include "shim/connection.h"
#include "shim/event_stream.h"
#include "shim/executor.h"
#include "shim/home_changes.h"
#include "shim/init_link.h"
#include "shim/installer.h"
#include "shim/kernel.h"
#include "shim/package_desk.h"

/* What SHIM_STATUS says, apart from texts. */
struct status {
    const char *state;
    int64_t execution_count;
    size_t queued;
    size_t commands;
};

struct shim {
    struct loop *loop;
    struct connection *connection;
    struct init_link *init;
    struct kernel *kernel;
    struct executor *executor;
    struct commands *commands;
    struct installer *installer;
    struct package_desk *desk;
    struct event_streams *streams;
    struct home_changes *changes;
    struct id sandbox;
    struct file_links links;
    json_t *record;                               /* huskd's note; NULL: none */
    struct status told;                           /* last */
    struct ticket restarts[MAX_WAITING_REQUESTS]; /* who waits for the fresh kernel */
    size_t restart_count;
};

/* --- to huskd ------------------------------------------------------------------------------- */

/* Takes `payload`. */
static void answer(struct shim *shim, struct ticket ticket, enum shim_type type, json_t *payload)
{
    _cleanup_free_ char *text = json_dumps(payload, JSON_COMPACT);
    json_decref(payload);
    if (text)
        connection_answer(shim->connection, ticket, type, text, strlen(text));
}

static void tell(struct shim *shim, enum shim_type type, json_t *payload)
{
    _cleanup_free_ char *text = json_dumps(payload, JSON_COMPACT);
    json_decref(payload);
    if (text)
        connection_tell(shim->connection, type, text, strlen(text));
}

static void answer_done(struct shim *shim, struct ticket ticket, int status, const char *detail)
{
    answer(shim, ticket, SHIM_DONE, json_pack("{s:i, s:s}", "status", status, "detail", detail));
}

static void answer_rejected(struct shim *shim, struct ticket ticket, const char *code,
                            const char *detail)
{
    answer(shim, ticket, SHIM_REJECTED, json_pack("{s:s, s:s}", "code", code, "detail", detail));
}

static struct status current_status(const struct shim *shim)
{
    bool fresh = kernel_generation(shim->kernel) <= 1;
    const char *states[] = {
        [KERNEL_NEW] = "new",
        [KERNEL_STARTING] = fresh ? "starting" : "restarting",
        [KERNEL_READY] = executor_busy(shim->executor) ? "busy" : "ready",
        [KERNEL_STOPPING] = "restarting",
        [KERNEL_DEAD] = "dead",
    };
    return (struct status){.state = states[kernel_state(shim->kernel)],
                           .execution_count = executor_count(shim->executor),
                           .queued = executor_queued(shim->executor),
                           .commands = commands_running(shim->commands)};
}

static void tell_status(struct shim *shim, bool with_record)
{
    shim->told = current_status(shim);
    json_t *info = kernel_info(shim->kernel);
    json_t *status =
        json_pack("{s:s, s:I, s:I, s:I, s:O?}", "state", shim->told.state, "execution_count",
                  (json_int_t)shim->told.execution_count, "queued", (json_int_t)shim->told.queued,
                  "commands", (json_int_t)shim->told.commands, "kernel", info);
    if (!info)
        (void)json_object_set_new(status, "kernel", json_null());
    if (with_record)
        (void)json_object_set(status, "record", shim->record ? shim->record : json_null());
    tell(shim, SHIM_STATUS, status);
}

static void tell_changes(struct shim *shim)
{
    struct status now = current_status(shim);
    if (now.state != shim->told.state || now.execution_count != shim->told.execution_count ||
        now.queued != shim->told.queued || now.commands != shim->told.commands)
        tell_status(shim, false);
}

static void tell_dead(struct shim *shim)
{
    tell(shim, SHIM_DEAD, json_pack("{s:s}", "detail", kernel_detail(shim->kernel)));
}

/* --- from the executor and the commands ------------------------------------------------------ */

static void on_result(void *user, struct ticket ticket, const struct buffer *payload)
{
    struct shim *shim = user;
    connection_answer(shim->connection, ticket, SHIM_RESULT, payload->data, payload->length);
}

static void on_rejected(void *user, struct ticket ticket, const char *code, const char *detail)
{
    answer_rejected(user, ticket, code, detail);
}

static void on_progress(void *user, struct ticket ticket, const struct buffer *payload)
{
    struct shim *shim = user;
    connection_answer(shim->connection, ticket, SHIM_STREAM, payload->data, payload->length);
}

static void on_interrupted(void *user, struct ticket ticket, int status)
{
    answer_done(user, ticket, status, status ? "Too many requests to interrupt are waiting." : "");
}

static void on_changed(void *user)
{
    tell_changes(user);
}

static void on_stream_changed(void *user)
{
    struct shim *shim = user;
    executor_stream_changed(shim->executor);
    commands_stream_changed(shim->commands);
}

static void on_killed(void *user, struct ticket ticket, int status)
{
    answer_done(user, ticket, status, status ? "Too many requests to end it are waiting." : "");
}

static const struct executor_sink executor_sink = {on_result, on_rejected, on_progress,
                                                   on_interrupted, on_changed};
static const struct commands_sink commands_sink = {on_result, on_progress, on_killed, on_changed};

/* --- from the kernel ------------------------------------------------------------------------ */

static void finish_restarts(struct shim *shim, int status, const char *detail)
{
    for (size_t i = 0; i < shim->restart_count; i++)
        answer_done(shim, shim->restarts[i], status, detail);
    shim->restart_count = 0;
}

static void on_kernel_changed(void *user)
{
    struct shim *shim = user;
    tell_changes(shim);
}

static void on_kernel_ready(void *user)
{
    struct shim *shim = user;
    executor_kernel_ready(shim->executor);
    finish_restarts(shim, 0, "");
}

static void on_kernel_lost(void *user, const char *how)
{
    struct shim *shim = user;
    executor_kernel_lost(shim->executor, how);
}

static void on_kernel_given_up(void *user, const char *detail)
{
    struct shim *shim = user;
    executor_kernel_given_up(shim->executor, detail);
    finish_restarts(shim, -EIO, detail);
    tell_dead(shim);
}

static void on_kernel_message(void *user, enum channel channel, const struct message *message,
                              uint64_t number)
{
    struct shim *shim = user;
    executor_message(shim->executor, channel, message, number);
}

static void on_kernel_damaged(void *user)
{
    struct shim *shim = user;
    executor_damaged(shim->executor);
}

static void on_swept(void *user)
{
    struct shim *shim = user;
    commands_swept(shim->commands);
}

static void on_container_gone(void *user)
{
    struct shim *shim = user;
    log_event(LOG_DEBUG, "the container has ended", NULL);
    loop_stop(shim->loop, 0);
}

static const struct kernel_events kernel_events = {
    .changed = on_kernel_changed,
    .ready = on_kernel_ready,
    .lost = on_kernel_lost,
    .given_up = on_kernel_given_up,
    .message = on_kernel_message,
    .damaged = on_kernel_damaged,
    .swept = on_swept,
    .container_gone = on_container_gone,
};

/* --- from huskd ----------------------------------------------------------------------------- */

static void on_hello(struct shim *shim, struct ticket ticket _unused_, const json_t *body _unused_)
{
    event_streams_discard_old(shim->streams);
    commands_cancel_old(shim->commands, shim->connection);
    package_desk_dismiss(shim->desk);
    tell_status(shim, true);
    if (kernel_state(shim->kernel) == KERNEL_DEAD)
        tell_dead(shim);
}

static void set_record(struct shim *shim, json_t *record)
{
    json_decref(shim->record);
    shim->record = json_is_object(record) ? json_incref(record) : NULL;
}

/* One for each core that the sandbox may use, or part of one. */
static unsigned threads_for(const json_t *record)
{
    json_int_t millis = json_integer_value(json_object_get(record, "cpu_millis"));
    return millis > 0 && millis <= MAX_CPUS * 1000 ? (unsigned)(millis + 999) / 1000 : 1;
}

static void on_start(struct shim *shim, struct ticket ticket _unused_, const json_t *body)
{
    set_record(shim, json_object_get(body, "record"));
    struct failure why;
    if (file_links_from_start(body, shim->sandbox, &shim->links, &why) == 0 &&
        kernel_start(shim->kernel, json_object_get(body, "env"), threads_for(shim->record), &why) ==
            0)
        return;
    log_event(LOG_ERROR, "kernel is not started", "reason", why.text, NULL);
    tell_status(shim, false);
}

static void on_record(struct shim *shim, struct ticket ticket _unused_, const json_t *body)
{
    set_record(shim, (json_t *)(uintptr_t)body);
}

static void on_execute(struct shim *shim, struct ticket ticket, const json_t *body)
{
    struct order order;
    if (order_read(ticket, body, &order) < 0)
        return answer_rejected(shim, ticket, "invalid", "The code or its options are not usable.");
    int r = executor_submit(shim->executor, &order);
    if (r == -ENOSPC)
        answer_rejected(shim, ticket, "queue_full",
                        "Too many executions are waiting for this sandbox.");
    else if (r < 0)
        answer_rejected(shim, ticket, "not_running", "The sandbox has no running kernel.");
    else if (order.execution_id)
        answer_done(shim, ticket, 0, "");
}

static void on_ask(struct shim *shim, struct ticket ticket, const json_t *body)
{
    struct question question;
    struct order order;
    if (order_read_question(ticket, body, &question, &order) < 0)
        return answer_rejected(shim, ticket, "invalid", "The question is not usable.");
    int r = executor_submit(shim->executor, &order);
    if (r == -EBUSY)
        answer_rejected(shim, ticket, "sandbox_busy",
                        "Code runs or waits in this sandbox, or its kernel is being replaced. Ask "
                        "again when it is ready.");
    else if (r == -ENOSPC)
        answer_rejected(shim, ticket, "queue_full", "Too much is waiting for this sandbox.");
    else if (r < 0)
        answer_rejected(shim, ticket, "not_running", "The sandbox has no running kernel.");
}

static void on_cancel(struct shim *shim, struct ticket ticket, const json_t *body _unused_)
{
    event_streams_discard(shim->streams, ticket);
    executor_cancel(shim->executor, ticket);
    commands_cancel(shim->commands, ticket);
}

static void on_input(struct shim *shim, struct ticket ticket, const json_t *body)
{
    json_t *value = json_object_get(body, "value");
    int r = executor_input(shim->executor, json_is_string(value) ? value : NULL);
    if (r == -ENOENT)
        answer_rejected(
            shim, ticket, "no_input_expected",
            "No code in this sandbox waits for input. It does so when it calls input() in an "
            "execution that streams and was sent with \"stdin\": \"ask\".");
    else
        answer_done(shim, ticket, r, r < 0 ? "The kernel did not take the input." : "");
}

static void on_fetch(struct shim *shim, struct ticket ticket, const json_t *body)
{
    const char *id = json_string_value(json_object_get(body, "execution_id"));
    _cleanup_buffer_ struct buffer payload =
        BUFFER_LIMITED(sizeof(struct shim_result_head) + MAX_ANSWER_BYTES);
    if (executor_fetch(shim->executor, id ? id : "", &payload) < 0)
        return answer_rejected(
            shim, ticket, "execution_not_found",
            "This sandbox has no detached execution of this id, or its result was "
            "forgotten because many others came after it.");
    connection_answer(shim->connection, ticket, SHIM_RESULT, payload.data, payload.length);
}

static void on_command(struct shim *shim, struct ticket ticket, const json_t *body)
{
    struct command_order order;
    if (command_order_read(ticket, body, &order) < 0)
        return answer_rejected(shim, ticket, "invalid",
                               "The command or its options are not usable.");
    int r = commands_submit(shim->commands, &order);
    if (r == -ENOSPC)
        answer_rejected(shim, ticket, "too_many_commands",
                        "As many commands as may run at once run in this sandbox. Wait for one to "
                        "end, or end one with DELETE.");
    else if (r < 0)
        answer_rejected(shim, ticket, "invalid", "The environment of the command is not usable.");
}

static const char *command_reference(const json_t *body)
{
    const char *reference = json_string_value(json_object_get(body, "command"));
    return reference ? reference : "";
}

static void reject_unknown_command(struct shim *shim, struct ticket ticket)
{
    answer_rejected(shim, ticket, "command_not_found",
                    "This sandbox has no command of this id or pid, or its result was forgotten "
                    "because many others came after it.");
}

static void on_command_list(struct shim *shim, struct ticket ticket, const json_t *body _unused_)
{
    _cleanup_buffer_ struct buffer payload = {0};
    if (commands_list(shim->commands, &payload) == 0)
        connection_answer(shim->connection, ticket, SHIM_RESULT, payload.data, payload.length);
    else
        answer_rejected(shim, ticket, "out_of_memory",
                        "The shim of this sandbox is out of memory.");
}

static void on_command_fetch(struct shim *shim, struct ticket ticket, const json_t *body)
{
    _cleanup_buffer_ struct buffer payload =
        BUFFER_LIMITED(sizeof(struct shim_result_head) + MAX_ANSWER_BYTES);
    if (commands_fetch(shim->commands, command_reference(body), &payload) < 0)
        return reject_unknown_command(shim, ticket);
    connection_answer(shim->connection, ticket, SHIM_RESULT, payload.data, payload.length);
}

static void on_command_kill(struct shim *shim, struct ticket ticket, const json_t *body)
{
    if (commands_kill(shim->commands, command_reference(body), ticket) < 0)
        reject_unknown_command(shim, ticket);
}

static void on_interrupt(struct shim *shim, struct ticket ticket, const json_t *body _unused_)
{
    executor_interrupt(shim->executor, ticket);
}

static void on_restart(struct shim *shim, struct ticket ticket, const json_t *body _unused_)
{
    enum kernel_state state = kernel_state(shim->kernel);
    if (state == KERNEL_NEW || state == KERNEL_DEAD)
        return answer_done(shim, ticket, -ENOTCONN, "The sandbox has no running kernel.");
    if (shim->restart_count == MAX_WAITING_REQUESTS)
        return answer_done(shim, ticket, -EBUSY, "Too many requests to restart are waiting.");
    shim->restarts[shim->restart_count++] = ticket;
    executor_end_all(shim->executor);
    kernel_replace(shim->kernel);
}

static void on_credit(struct shim *shim, struct ticket ticket, const char *payload, size_t length)
{
    struct shim_credit credit;
    if (length != sizeof credit)
        return;
    memcpy(&credit, payload, sizeof credit);
    event_streams_credit(shim->streams, ticket, credit.bytes);
}

static void on_packages(struct shim *shim, struct ticket ticket, const json_t *body _unused_)
{
    if (installer_list(shim->installer, ticket) < 0)
        answer_rejected(shim, ticket, "queue_full", "Too much waits for this sandbox already.");
}

static void on_install(struct shim *shim, struct ticket ticket, const json_t *body)
{
    if (installer_install(shim->installer, ticket, (json_t *)(uintptr_t)body) < 0)
        answer_rejected(shim, ticket, "not_running",
                        "The sandbox is busy with another install, or cannot begin one now.");
}

static void on_frame(void *user, uint16_t type, struct ticket ticket, const char *payload,
                     size_t length)
{
    static const struct {
        void (*handle)(struct shim *shim, struct ticket ticket, const json_t *body);
        bool has_body;
    } handlers[] = {
        [SHIM_HELLO] = {on_hello, false},
        [SHIM_START] = {on_start, true},
        [SHIM_RECORD] = {on_record, true},
        [SHIM_EXECUTE] = {on_execute, true},
        [SHIM_CANCEL] = {on_cancel, false},
        [SHIM_INTERRUPT] = {on_interrupt, false},
        [SHIM_RESTART] = {on_restart, false},
        [SHIM_INPUT] = {on_input, true},
        [SHIM_FETCH] = {on_fetch, true},
        [SHIM_ASK] = {on_ask, true},
        [SHIM_COMMAND] = {on_command, true},
        [SHIM_COMMAND_LIST] = {on_command_list, false},
        [SHIM_COMMAND_FETCH] = {on_command_fetch, true},
        [SHIM_COMMAND_KILL] = {on_command_kill, true},
        [SHIM_PACKAGES] = {on_packages, false},
        [SHIM_INSTALL] = {on_install, true},
    };
    struct shim *shim = user;
    json_auto_t *body = NULL;
    if (type == SHIM_CREDIT)
        return on_credit(shim, ticket, payload, length);
    if (type == SHIM_SAY || type == SHIM_SAID)
        return package_desk_say(shim->desk, ticket.tag, payload, length, type == SHIM_SAID);
    if (type >= ARRAY_LENGTH(handlers) || !handlers[type].handle)
        return log_event(LOG_WARNING, "huskd sent something unknown", "type", log_number(type),
                         NULL);
    if (handlers[type].has_body) {
        json_error_t error;
        body = json_loadb(payload, length, JSON_ALLOW_NUL, &error);
        if (!body)
            log_event(LOG_ERROR, "huskd sent something unreadable", "type", log_number(type),
                      "reason", error.text, NULL);
    }
    handlers[type].handle(shim, ticket, body);
}

/* --- life ----------------------------------------------------------------------------------- */

static void before_wait(void *user)
{
    struct shim *shim = user;
    kernel_pump(shim->kernel);
    connection_flush(shim->connection);
}

static void add_executor(struct shim *shim, const struct shim_setup *setup)
{
    struct executor_setup executor_setup = {
        .loop = setup->loop,
        .kernel = shim->kernel,
        .streams = shim->streams,
        .changes = shim->changes,
        .oom_fd = setup->oom_fd,
        .sink = &executor_sink,
        .user = shim,
    };
    shim->executor = executor_new(&executor_setup);
}

static void add_commands(struct shim *shim, const struct shim_setup *setup)
{
    struct command_setup command_setup = {
        .loop = setup->loop,
        .init = shim->init,
        .environment = kernel_environment(shim->kernel),
        .changes = shim->changes,
        .home_fd = setup->home_fd,
        .oom_fd = setup->oom_fd,
        .null_fd = setup->null_fd,
    };
    shim->commands = commands_new(&command_setup, shim->streams, &commands_sink, shim);
}

static void add_installer(struct shim *shim, const struct shim_setup *setup)
{
    struct installer_setup installer_setup = {.loop = setup->loop,
                                              .init = shim->init,
                                              .connection = shim->connection,
                                              .null_fd = setup->null_fd};
    shim->installer = installer_new(&installer_setup);
    shim->desk = package_desk_new(setup->loop, shim->connection);
}

static int add_links(struct shim *shim, const struct shim_setup *setup, struct failure *why)
{
    shim->init = init_link_new(setup->loop, setup->init_fd);
    if (!shim->init)
        return fail(why, errno, "watch the socket of init");
    struct kernel_setup kernel_setup = {
        .loop = setup->loop,
        .init = shim->init,
        .fork_socket = setup->fork_fd,
        .fork_report = setup->report_fd,
        .null_fd = setup->null_fd,
        .events = &kernel_events,
        .user = shim,
    };
    shim->kernel = kernel_new(&kernel_setup, why);
    if (!shim->kernel)
        return -why->code;
    shim->connection = connection_new(setup->loop, setup->listen_fd, on_frame, shim);
    return shim->connection ? 0 : fail(why, errno, "watch the socket for huskd");
}

struct shim *shim_new(const struct shim_setup *setup, struct failure *why)
{
    struct shim *shim = must_alloc(sizeof *shim);
    shim->loop = setup->loop;
    shim->sandbox = setup->sandbox;
    if (add_links(shim, setup, why) < 0)
        return shim_free(shim);
    shim->streams = event_streams_new(setup->loop, shim->connection, on_stream_changed, shim);
    shim->changes = home_changes_new(setup->home_fd, &shim->links);
    add_executor(shim, setup);
    add_commands(shim, setup);
    add_installer(shim, setup);
    shim->told = current_status(shim);
    loop_before_wait(setup->loop, before_wait, shim);
    return shim;
}

struct shim *shim_free(struct shim *shim)
{
    if (!shim)
        return NULL;
    executor_free(shim->executor);
    commands_free(shim->commands);
    package_desk_free(shim->desk);
    installer_free(shim->installer);
    event_streams_free(shim->streams);
    home_changes_free(shim->changes);
    kernel_free(shim->kernel);
    init_link_free(shim->init);
    connection_free(shim->connection);
    json_decref(shim->record);
    free(shim);
    return NULL;
}
