/* Calls the functions of husk.h and looks at everything that they give back, so that valgrind and sanitizers see it.
 *
 *   calls URL FUNCTION COUNT    call one function so often, with one client; a line for each call: "ok", or "KIND STATUS CODE: MESSAGE"
 *   calls URL tour              make a sandbox and call all of them; one that fails ends the program. A kernel that takes its
 *                               time with a prompt (504 "kernel_timeout") is no failure.
 *
 * The environment says where files go: TMPDIR. */
#include <err.h>
#include <husk.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- looking -------------------------------------------------------------------------------------- */

static volatile unsigned char seen;

static void look_at_bytes(struct husk_text text)
{
    for (size_t i = 0; i <= text.length; i++) /* and the NUL behind it */
        seen ^= (unsigned char)text.data[i];
    if (text.data[text.length] != '\0')
        errx(1, "there is no NUL behind a text");
}

static void look_at_optional(const char *text)
{
    if (text)
        look_at_bytes((struct husk_text){text, strlen(text)});
}

/* Those that are never NULL. */
static void look_at(const char *text)
{
    if (!text)
        errx(1, "a text is NULL");
    look_at_optional(text);
}

static void look_at_file(const struct husk_file *file)
{
    look_at(file->path);
    look_at(file->type);
    look_at(file->modified_at);
    look_at(file->change);
    look_at(file->url);
}

static void look_at_outputs(const struct husk_output *outputs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        look_at(outputs[i].type);
        look_at_bytes(outputs[i].data);
        look_at(outputs[i].display_id);
    }
}

static void look_at_result(struct husk_result *result)
{
    look_at_bytes(result->stdout_text);
    look_at_bytes(result->stderr_text);
    look_at_optional(result->error);
    look_at_optional(result->error_value);
    look_at_optional(result->traceback);
    look_at_outputs(result->outputs, result->output_count);
    for (size_t i = 0; i < result->file_count; i++)
        look_at_file(&result->files[i]);
    look_at(result->status);
    look_at_optional(result->signal);
    look_at(result->command_id);
    look_at(result->json);
    husk_result_free(result);
}

static void look_at_sandbox(const struct husk_sandbox *sandbox)
{
    look_at(sandbox->id);
    look_at(sandbox->name);
    look_at(sandbox->state);
    look_at(sandbox->created_at);
    look_at(sandbox->expires_at);
    look_at(sandbox->json);
}

static void look_at_packages(const struct husk_package *packages, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        look_at(packages[i].name);
        look_at(packages[i].version);
        look_at(packages[i].status);
        look_at(packages[i].error);
    }
}

static int on_event(const struct husk_event *event, void *user)
{
    ++*(unsigned *)user;
    look_at_bytes(event->text);
    look_at_outputs(event->outputs, event->output_count);
    if (event->file)
        look_at_file(event->file);
    look_at_optional(event->error);
    look_at_optional(event->error_value);
    look_at_optional(event->traceback);
    look_at(event->command_id);
    look_at(event->json);
    return 0;
}

static int on_progress(uint64_t done, uint64_t total, void *user)
{
    (void)user;
    if (total > 0 && done > total)
        errx(1, "progress beyond the end");
    return 0;
}

/* --- calling -------------------------------------------------------------------------------------- */

static char local[4096]; /* a file of this machine */
static char execution[HUSK_ID_SIZE] = "an-execution", command[HUSK_ID_SIZE] = "a-command";
static const struct husk_variable variables[] = {{"NAME", "value"}};
static const struct husk_code code = {
    .code = "import sys; print(1); print(2, file=sys.stderr); open('x.txt', 'w').write('x'); {3}",
    .timeout = 60,
    .variables = variables,
    .variable_count = 1};
static const struct husk_command shell = {.command = "echo 1; sleep 0", .timeout = 60};
static const char *const arguments[] = {"sleep", "1000"};
static const struct husk_command endless = {.arguments = arguments, .argument_count = 2};

static int call_health(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_health *health;
    (void)sandbox;
    int r = husk_health(husk, &health, error);
    if (r < 0)
        return r;
    look_at(health->version);
    look_at(health->reasons);
    look_at(health->json);
    husk_health_free(health);
    return 0;
}

static int call_create(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_sandbox *made;
    struct husk_create wanted = {.variables = variables, .variable_count = 1, .memory_mb = 256};
    (void)sandbox;
    int r = husk_create(husk, &wanted, &made, error);
    if (r < 0)
        return r;
    look_at_sandbox(made);
    r = husk_close(husk, made->id, error);
    husk_sandbox_free(made);
    return r;
}

static int call_info(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_sandbox *info;
    int r = husk_info(husk, sandbox, &info, error);
    if (r < 0)
        return r;
    look_at_sandbox(info);
    husk_sandbox_free(info);
    return 0;
}

static int call_list(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_sandbox_list *list;
    (void)sandbox;
    int r = husk_list(husk, &list, error);
    if (r < 0)
        return r;
    for (size_t i = 0; i < list->count; i++)
        look_at_sandbox(list->sandboxes[i]);
    look_at(list->json);
    husk_sandbox_list_free(list);
    return 0;
}

static int call_extend(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    return husk_extend(husk, sandbox, 1000, error);
}

static int call_execute(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_result *result;
    int r = husk_execute(husk, sandbox, &code, &result, error);
    if (r == 0)
        look_at_result(result);
    return r;
}

static int call_execute_streaming(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_result *result;
    unsigned count = 0;
    int r = husk_execute_streaming(husk, sandbox, &code, on_event, &count, &result, error);
    if (r == 0)
        look_at_result(result);
    return r;
}

static int call_execute_detached(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    return husk_execute_detached(husk, sandbox, &code, execution, error);
}

static int call_execution(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_result *result;
    int r = husk_execution(husk, sandbox, execution, &result, error);
    if (r == 0)
        look_at_result(result);
    return r;
}

static int call_interrupt(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    return husk_interrupt(husk, sandbox, error);
}

static int call_restart(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    return husk_restart(husk, sandbox, error);
}

static int call_complete(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_completion *completion;
    int r = husk_complete(husk, sandbox, "prin", 4, &completion, error);
    if (r < 0)
        return r;
    for (size_t i = 0; i < completion->match_count; i++)
        look_at(completion->matches[i]);
    look_at(completion->json);
    husk_completion_free(completion);
    return 0;
}

static int call_inspect(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_inspection *inspection;
    int r = husk_inspect(husk, sandbox, "print", 5, 0, &inspection, error);
    if (r < 0)
        return r;
    look_at_bytes(inspection->text);
    look_at(inspection->json);
    husk_inspection_free(inspection);
    return 0;
}

static int call_is_complete(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_completeness *completeness;
    int r = husk_is_complete(husk, sandbox, "if 1:", &completeness, error);
    if (r < 0)
        return r;
    look_at(completeness->status);
    look_at(completeness->indent);
    look_at(completeness->json);
    husk_completeness_free(completeness);
    return 0;
}

static int call_command(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_result *result;
    int r = husk_command(husk, sandbox, &shell, &result, error);
    if (r == 0)
        look_at_result(result);
    return r;
}

static int call_command_streaming(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_result *result;
    unsigned count = 0;
    int r = husk_command_streaming(husk, sandbox, &shell, on_event, &count, &result, error);
    if (r == 0)
        look_at_result(result);
    return r;
}

static int call_command_detached(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    return husk_command_detached(husk, sandbox, &endless, command, error);
}

static int call_command_result(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_result *result;
    int r = husk_command_result(husk, sandbox, command, &result, error);
    if (r == 0)
        look_at_result(result);
    return r;
}

static int call_command_kill(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    return husk_command_kill(husk, sandbox, command, error);
}

static int call_commands(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_process_list *list;
    int r = husk_commands(husk, sandbox, &list, error);
    if (r < 0)
        return r;
    for (size_t i = 0; i < list->count; i++) {
        look_at(list->processes[i].command_id);
        look_at(list->processes[i].command);
        look_at(list->processes[i].status);
        look_at(list->processes[i].started_at);
    }
    husk_process_list_free(list);
    return 0;
}

static int call_install(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    static const char *const names[] = {"numpy"};
    struct husk_installed *installed;
    struct husk_install order = {.packages = names, .package_count = 1};
    unsigned count = 0;
    int r = husk_install(husk, sandbox, &order, on_event, &count, &installed, error);
    if (r < 0)
        return r;
    look_at_packages(installed->packages, installed->count);
    look_at(installed->output);
    look_at(installed->error);
    look_at(installed->json);
    husk_installed_free(installed);
    return 0;
}

static int look_at_list(int r, struct husk_package_list *list)
{
    if (r < 0)
        return r;
    look_at_packages(list->packages, list->count);
    look_at(list->json);
    husk_package_list_free(list);
    return 0;
}

static int call_packages(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_package_list *list = NULL;
    int r = husk_packages(husk, sandbox, &list, error);
    return look_at_list(r, list);
}

static int call_package(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_package_list *list = NULL;
    int r = husk_package(husk, sandbox, "numpy", &list, error);
    return look_at_list(r, list);
}

static int call_upload(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    return husk_upload(husk, sandbox, "x", 1, "folder/y.txt", error);
}

static int call_upload_file(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    return husk_upload_file(husk, sandbox, "/proc/self/status", "status", error);
}

static int call_download(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_content *content;
    int r = husk_download(husk, sandbox, "x.txt", 0, &content, error);
    if (r < 0)
        return r;
    look_at_bytes(content->data);
    look_at(content->type);
    husk_content_free(content);
    return 0;
}

static int call_download_file(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    return husk_download_file(husk, sandbox, "x.txt", local, error);
}

static int call_files(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    struct husk_file_list *list;
    int r = husk_files(husk, sandbox, NULL, true, &list, error);
    if (r < 0)
        return r;
    for (size_t i = 0; i < list->count; i++)
        look_at_file(&list->files[i]);
    look_at(list->json);
    husk_file_list_free(list);
    return 0;
}

static int call_remove(struct husk *husk, const char *sandbox, struct husk_error *error)
{
    return husk_remove(husk, sandbox, "x.txt", error);
}

/* In an order that a real service can follow. */
static const struct {
    const char *name;
    int (*call)(struct husk *husk, const char *sandbox, struct husk_error *error);
} calls[] = {
    {"health", call_health},
    {"create", call_create},
    {"info", call_info},
    {"list", call_list},
    {"extend", call_extend},
    {"execute", call_execute},
    {"execute_streaming", call_execute_streaming},
    {"complete", call_complete},
    {"inspect", call_inspect},
    {"is_complete", call_is_complete},
    {"execute_detached", call_execute_detached},
    {"execution", call_execution},
    {"interrupt", call_interrupt},
    {"restart", call_restart},
    {"command", call_command},
    {"command_streaming", call_command_streaming},
    {"command_detached", call_command_detached},
    {"command_result", call_command_result},
    {"commands", call_commands},
    {"command_kill", call_command_kill},
    {"install", call_install},
    {"packages", call_packages},
    {"package", call_package},
    {"upload", call_upload},
    {"upload_file", call_upload_file},
    {"files", call_files},
    {"download", call_download},
    {"download_file", call_download_file},
    {"remove", call_remove},
};

static void call_one(struct husk *husk, const char *name, unsigned long count)
{
    struct husk_error error;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(calls[i].name, name) != 0)
            continue;
        for (unsigned long n = 0; n < count; n++) {
            if (calls[i].call(husk, "a-sandbox", &error) == 0)
                puts("ok");
            else
                printf("%s %d %s: %s\n", husk_error_name(error.kind), error.http_status, error.code,
                       error.message);
        }
        return;
    }
    errx(2, "there is no function %s", name);
}

static void tour(struct husk *husk)
{
    struct husk_error error;
    struct husk_sandbox *sandbox;
    if (husk_create(husk, NULL, &sandbox, &error) < 0)
        errx(1, "create: %s", error.message);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (calls[i].call(husk, sandbox->id, &error) < 0 &&
            strcmp(error.code, "kernel_timeout") != 0)
            errx(1, "%s: %s (%s)", calls[i].name, error.message, error.code);
        puts(calls[i].name);
    }
    if (husk_close(husk, sandbox->id, &error) < 0)
        errx(1, "close: %s", error.message);
    husk_sandbox_free(sandbox);
}

int main(int argc, char **argv)
{
    struct husk_error error;
    struct husk *husk;
    const char *folder = getenv("TMPDIR");
    if (argc < 3)
        errx(2, "usage: calls URL FUNCTION COUNT | calls URL tour");
    snprintf(local, sizeof local, "%s/calls.txt", folder ? folder : "/tmp");
    struct husk_options options = {.url = argv[1], .timeout_seconds = 20};
    if (husk_new(&options, &husk, &error) < 0)
        errx(1, "%s", error.message);
    husk_on_progress(husk, on_progress, NULL);
    if (strcmp(argv[2], "tour") == 0)
        tour(husk);
    else
        call_one(husk, argv[2], argc > 3 ? strtoul(argv[3], NULL, 10) : 1);
    husk_free(husk);
    return 0;
}
