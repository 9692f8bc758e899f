/* Commands beside the kernel. */
#include "base/attributes.h"
#include "library/complaint.h"
#include "library/events.h"
#include "library/gift.h"
#include "library/order.h"
#include "library/path.h"
#include "library/patience.h"
#include "library/result.h"

static int write_command(const struct husk_command *command, bool detach, char **ret,
                         struct husk_error *error)
{
    struct order order;
    if (!command || !command->command == !command->argument_count)
        return complain(error, HUSK_ERROR_ARGUMENT,
                        "Say what to run: either command or arguments.");
    order_begin(&order, error);
    order_put_text(&order, "command", command->command);
    order_put_list(&order, "command", command->arguments, command->argument_count);
    order_put_real(&order, "timeout", command->timeout);
    order_put_text(&order, "cwd", command->cwd);
    order_put_text(&order, "stdin", command->stdin_text);
    order_put_variables(&order, command->variables, command->variable_count);
    order_put_flag(&order, "detach", detach);
    return order_text(&order, ret);
}

static int prepare(struct path *path, const char *sandbox, const struct husk_command *command,
                   bool detach, char **body)
{
    path_begin(path, sandbox, "/command", path->error);
    return path->result < 0 ? path->result : write_command(command, detach, body, path->error);
}

int husk_command(struct husk *husk, const char *sandbox, const struct husk_command *command,
                 struct husk_result **ret, struct husk_error *error)
{
    _cleanup_path_ struct path path = {.error = error};
    _cleanup_free_ char *body = NULL;
    void *content;
    int r = prepare(&path, sandbox, command, false, &body);
    if (r < 0)
        return r;
    struct exchange exchange = {.method = "POST",
                                .path = path.text.data,
                                .body = body,
                                .patience = patience_for(command->timeout)};
    r = answers_get(husk, &exchange, &result_whole, &content, error);
    if (r == 0)
        *ret = content;
    return r;
}

int husk_command_streaming(struct husk *husk, const char *sandbox,
                           const struct husk_command *command, husk_on_event on_event, void *user,
                           struct husk_result **ret, struct husk_error *error)
{
    _cleanup_path_ struct path path = {.error = error};
    _cleanup_free_ char *body = NULL;
    int r = prepare(&path, sandbox, command, false, &body);
    if (r < 0)
        return r;
    struct exchange exchange = {.method = "POST", .path = path.text.data, .body = body};
    return events_run_result(husk, &exchange, on_event, user, ret, error);
}

int husk_command_detached(struct husk *husk, const char *sandbox,
                          const struct husk_command *command, char command_id[HUSK_ID_SIZE],
                          struct husk_error *error)
{
    _cleanup_path_ struct path path = {.error = error};
    _cleanup_free_ char *body = NULL;
    int r = prepare(&path, sandbox, command, true, &body);
    if (r < 0)
        return r;
    struct exchange exchange = {.method = "POST", .path = path.text.data, .body = body};
    return answers_id(husk, &exchange, "command_id", command_id, error);
}

int husk_command_result(struct husk *husk, const char *sandbox, const char *command_id,
                        struct husk_result **ret, struct husk_error *error)
{
    _cleanup_path_ struct path path;
    void *content;
    path_begin(&path, sandbox, "/commands/", error);
    path_add_name(&path, command_id, "command");
    struct exchange exchange = {.method = "GET", .path = path.text.data, .reads = true};
    int r = path.result < 0 ? path.result
                            : answers_get(husk, &exchange, &result_fetched, &content, error);
    if (r == 0)
        *ret = content;
    return r;
}

int husk_command_kill(struct husk *husk, const char *sandbox, const char *command_id,
                      struct husk_error *error)
{
    _cleanup_path_ struct path path;
    path_begin(&path, sandbox, "/commands/", error);
    path_add_name(&path, command_id, "command");
    struct exchange exchange = {
        .method = "DELETE", .path = path.text.data, .patience = CLIENT_SLOW_SECONDS};
    return path.result < 0 ? path.result : exchange_order(husk, &exchange, error);
}

/* --- the list ----------------------------------------------------------------------------------- */

static void read_list(struct reading *reading, const json_t *json, const char *text, void *content)
{
    struct husk_process_list *ret = content;
    if (!reading_is_object(reading, json, "it"))
        return;
    const json_t *list = reading_list(reading, json, "commands");
    size_t count = json_array_size(list);
    struct husk_process *processes = reading_array(reading, count, sizeof *processes);
    if (!list)
        (void)reading_fail(reading, "the field 'commands'", "is missing");
    for (size_t i = 0; i < count && reading->result == 0; i++) {
        const json_t *entry = json_array_get(list, i);
        if (!reading_is_object(reading, entry, "an entry of commands"))
            return;
        processes[i] =
            (struct husk_process){.command_id = reading_required_text(reading, entry, "command_id"),
                                  .command = reading_text(reading, entry, "command", ""),
                                  .status = reading_text(reading, entry, "status", ""),
                                  .started_at = reading_text(reading, entry, "started_at", ""),
                                  .pid = reading_int(reading, entry, "pid", 0)};
    }
    *ret = (struct husk_process_list){.processes = processes, .count = count, .json = text};
}

int husk_commands(struct husk *husk, const char *sandbox, struct husk_process_list **ret,
                  struct husk_error *error)
{
    static const struct answer_shape shape = {sizeof(struct husk_process_list), read_list};
    _cleanup_path_ struct path path;
    void *content;
    path_begin(&path, sandbox, "/commands", error);
    struct exchange exchange = {.method = "GET", .path = path.text.data, .reads = true};
    int r = path.result < 0 ? path.result : answers_get(husk, &exchange, &shape, &content, error);
    if (r == 0)
        *ret = content;
    return r;
}

struct husk_process_list *husk_process_list_free(struct husk_process_list *list)
{
    return gift_free(list);
}
