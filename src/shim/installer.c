#include "shim/installer.h"

#include <errno.h>
#include <string.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "husk/limits.h"
#include "husk/shim_protocol.h"
#include "shim/process.h"

static const char program[] = "/opt/husk/bin/husk-venv";

enum {
    MAX_LIST_BYTES = MAX_INSTALLED_PACKAGES * (MAX_PACKAGE_NAME + MAX_PACKAGE_VERSION + 2),
    RECOVER_SECONDS = 30
};

enum task {
    TASK_NONE,
    TASK_LIST,
    TASK_INSTALL,
    TASK_RECOVER, /* after an install that was killed */
};

struct installer {
    struct installer_setup setup;
    enum task task;
    json_t *order;        /* the install that comes next; NULL: none */
    struct ticket ticket; /* who waits for it, or for that which is at work */
    struct ticket listers[MAX_WAITING_REQUESTS];
    size_t lister_count; /* who wait for a list, */
    size_t listing;      /* and how many of them for the one that is being made */
    struct process *process;
    uint64_t number; /* of the last process */
    uint64_t began;
    struct buffer output, errors;
    struct timer *deadline;
};

/* --- answers ------------------------------------------------------------------------------------ */

/* Takes `body`. */
static void answer(struct installer *installer, struct ticket ticket, json_t *body)
{
    _cleanup_buffer_ struct buffer payload = {0};
    struct shim_result_head head = {.status = EXECUTION_OK,
                                    .duration_ms = now_ms() - installer->began};
    _cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (text && buffer_append(&payload, &head, sizeof head) == 0 &&
        buffer_append_text(&payload, text) == 0)
        connection_answer(installer->setup.connection, ticket, SHIM_RESULT, payload.data,
                          payload.length);
    else
        connection_answer(installer->setup.connection, ticket, SHIM_REJECTED, "{}", 2);
}

static json_t *listed(struct installer *installer)
{
    json_t *list = json_array();
    char *rest = NULL, *text = (char *)(uintptr_t)buffer_text(&installer->output);
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL;
         line && json_array_size(list) < MAX_INSTALLED_PACKAGES;
         line = strtok_r(NULL, "\n", &rest)) {
        char *space = strrchr(line, ' ');
        if (!space)
            continue;
        *space = '\0';
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:s}", "name", line, "version", space + 1));
    }
    return json_pack("{s:o}", "packages", list);
}

/* "! name": something that the kernel has imported was replaced. */
static bool restart_needed(struct installer *installer)
{
    const char *text = buffer_text(&installer->output);
    return text && (starts_with(text, "! ") || strstr(text, "\n! "));
}

static json_t *installed(struct installer *installer, int code)
{
    size_t length = utf8_cut(installer->errors.data, installer->errors.length, MAX_INSTALL_OUTPUT);
    return json_pack("{s:i, s:s%, s:b}", "code", code, "output",
                     length ? installer->errors.data : "", length, "restart",
                     code == 0 && restart_needed(installer));
}

/* --- the process -------------------------------------------------------------------------------- */

static int start(struct installer *installer, enum task task, const char *const *arguments,
                 uint64_t milliseconds);

static void recover(struct installer *installer)
{
    static const char *const arguments[] = {program, "recover", NULL};
    if (start(installer, TASK_RECOVER, arguments, RECOVER_SECONDS * 1000) == 0)
        return;
    installer->task = TASK_NONE;
    answer(installer, installer->ticket, installed(installer, 1));
}

/* A list that is not whole is none: whoever installs would take what is missing for not installed. */
static void answer_listers(struct installer *installer, bool whole)
{
    json_auto_t *list = whole ? listed(installer) : json_pack("{s:n}", "packages");
    for (size_t i = 0; i < installer->listing; i++)
        answer(installer, installer->listers[i], json_incref(list));
    installer->lister_count -= installer->listing;
    memmove(installer->listers, installer->listers + installer->listing,
            installer->lister_count * sizeof installer->listers[0]);
    installer->listing = 0;
}

static void begin_install(struct installer *installer)
{
    const char *arguments[MAX_INSTALL_PACKAGES + 3] = {program, "install"};
    json_auto_t *order = TAKE_POINTER(installer->order);
    json_int_t milliseconds = json_integer_value(json_object_get(order, "timeout_ms"));
    size_t i;
    const json_t *wheel;
    json_array_foreach(json_object_get(order, "wheels"), i, wheel) arguments[i + 2] =
        json_string_value(wheel);
    if (start(installer, TASK_INSTALL, arguments, (uint64_t)milliseconds) == 0)
        return;
    (void)buffer_append_text(&installer->errors, "the container does not start the installer");
    answer(installer, installer->ticket, installed(installer, 1));
}

/* One list for all who wait for one. */
static void begin_list(struct installer *installer)
{
    static const char *const arguments[] = {program, "list", NULL};
    installer->listing = installer->lister_count;
    if (start(installer, TASK_LIST, arguments, LIST_SECONDS * 1000) < 0)
        answer_listers(installer, false);
}

static void begin_next(struct installer *installer)
{
    if (installer->task != TASK_NONE || (!installer->order && installer->lister_count == 0))
        return;
    buffer_clear(&installer->output);
    buffer_clear(&installer->errors);
    installer->began = now_ms();
    if (installer->order)
        begin_install(installer);
    else
        begin_list(installer);
}

static void on_started(void *user _unused_, int pid _unused_)
{
}

static void on_output(void *user, enum text_stream stream, const char *text, size_t length)
{
    struct installer *installer = user;
    if (installer->task != TASK_RECOVER)
        (void)buffer_append(stream == STREAM_STDOUT ? &installer->output : &installer->errors, text,
                            length);
}

static void on_ended(void *user, const struct process_end *end)
{
    struct installer *installer = user;
    enum task task = installer->task;
    int code = end->kind == PROCESS_EXITED ? end->value : 1;
    installer->process = process_free(installer->process);
    timer_disarm(installer->deadline);
    installer->task = TASK_NONE;
    if (task == TASK_INSTALL && end->kind == PROCESS_FAILED)
        (void)buffer_printf(&installer->errors, "the installer cannot be started: %s",
                            strerror(end->value));
    if (task == TASK_LIST) {
        answer_listers(installer, code == 0);
    } else if (task == TASK_INSTALL && end->kind != PROCESS_EXITED && end->kind != PROCESS_FAILED) {
        (void)buffer_append_text(&installer->errors, "the installer was killed");
        recover(installer);
    } else {
        answer(installer, installer->ticket, installed(installer, task == TASK_RECOVER ? 1 : code));
    }
    begin_next(installer);
}

static void too_late(struct timer *timer _unused_, void *user)
{
    struct installer *installer = user;
    (void)buffer_append_text(&installer->errors, "it took too long; ");
    process_stop(installer->process);
}

static const struct process_events process_events = {on_started, on_output, on_ended};

static int start(struct installer *installer, enum task task, const char *const *arguments,
                 uint64_t milliseconds)
{
    struct failure why;
    struct process_order order = {
        .loop = installer->setup.loop,
        .init = installer->setup.init,
        .name = {.client = INIT_PACKAGES, .number = ++installer->number},
        .command = {.arguments = arguments, .directory = "/", .apart = true, .environment = ""},
        .null_fd = installer->setup.null_fd,
        .events = &process_events,
        .user = installer,
    };
    installer->process = process_start(&order, &why);
    if (!installer->process)
        return -EAGAIN;
    installer->task = task;
    timer_arm(installer->deadline, milliseconds);
    return 0;
}

int installer_list(struct installer *installer, struct ticket ticket)
{
    if (installer->lister_count == ARRAY_LENGTH(installer->listers))
        return -ENOSPC;
    installer->listers[installer->lister_count++] = ticket;
    begin_next(installer);
    return 0;
}

int installer_install(struct installer *installer, struct ticket ticket, json_t *body)
{
    const json_t *wheels = json_object_get(body, "wheels");
    size_t i;
    const json_t *wheel;
    if (installer->order || installer->task == TASK_INSTALL || installer->task == TASK_RECOVER)
        return -EBUSY;
    if (json_array_size(wheels) == 0 || json_array_size(wheels) > MAX_INSTALL_PACKAGES ||
        json_integer_value(json_object_get(body, "timeout_ms")) <= 0)
        return -EINVAL;
    json_array_foreach(wheels, i, wheel)
    {
        if (!json_is_string(wheel))
            return -EINVAL;
    }
    installer->order = json_incref(body);
    installer->ticket = ticket;
    begin_next(installer);
    return 0;
}

/* --- what init says ----------------------------------------------------------------------------- */

static struct process *current(const struct installer *installer, uint64_t number)
{
    return number == installer->number ? installer->process : NULL;
}

static void init_started(void *user, uint64_t number, int pid, int pidfd)
{
    struct process *process = current(user, number);
    if (pidfd >= 0)
        close(pidfd);
    if (process)
        process_started(process, pid);
}

static void init_failed(void *user, uint64_t number, enum init_step step, int code)
{
    struct process *process = current(user, number);
    if (process)
        process_failed(process, step, code);
}

static void init_exited(void *user, uint64_t number, int wait_status)
{
    struct process *process = current(user, number);
    if (process)
        process_exited(process, wait_status);
}

static const struct init_events init_events = {init_started, init_failed, init_exited, NULL};

struct installer *installer_new(const struct installer_setup *setup)
{
    struct installer *installer = must_alloc(sizeof *installer);
    *installer = (struct installer){.setup = *setup,
                                    .output = BUFFER_LIMITED(MAX_LIST_BYTES),
                                    .errors = BUFFER_LIMITED(2 * MAX_INSTALL_OUTPUT)};
    installer->deadline = timer_add(setup->loop, too_late, installer);
    init_link_listen(setup->init, INIT_PACKAGES, &init_events, installer);
    return installer;
}

struct installer *installer_free(struct installer *installer)
{
    if (!installer)
        return NULL;
    process_free(installer->process);
    timer_remove(installer->deadline);
    buffer_free(&installer->output);
    buffer_free(&installer->errors);
    json_decref(installer->order);
    free(installer);
    return NULL;
}
