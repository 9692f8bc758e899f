/* `husk create`, `ls`, `info` and `close`. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "command/exit_status.h"
#include "command/human.h"
#include "command/interruption.h"
#include "command/sandbox_options.h"
#include "command/say.h"
#include "command/session.h"
#include "command/setup.h"
#include "command/table.h"
#include "command/terminal.h"
#include "command/verbs.h"

const char help_create[] =
    "Make a sandbox and print its id. All other verbs take the id or the name.\n"
    "\n" SANDBOX_OPTIONS_HELP "  -i, --install PKG    install this, too; may be said again\n"
    "  -e, --env NAME=VALUE a variable of its environment; NAME alone: as it is here\n"
    "\n"
    "Examples:\n"
    "  husk create --name demo --memory 2G --ttl 2h\n"
    "  box=$(husk create --install humanize)\n";

const char help_ls[] = "List the sandboxes, oldest first. --quiet: only their ids. Not on a "
                       "terminal: lines with tabs.\n"
                       "\n"
                       "Examples:\n"
                       "  husk ls\n"
                       "  husk ls --quiet | xargs husk close\n";

const char help_info[] = "What a sandbox is, may use and uses.\n"
                         "\n"
                         "Example:\n"
                         "  husk info demo\n";

const char help_close[] = "End sandboxes: what runs in them stops, their files are gone.\n"
                          "\n"
                          "  -a, --all            all of them; asks first on a terminal\n"
                          "  -y, --yes            do not ask\n"
                          "\n"
                          "Examples:\n"
                          "  husk close demo\n"
                          "  husk close --all\n";

DEFINE_CLEANUP(struct husk_sandbox, husk_sandbox_free);
DEFINE_CLEANUP(struct husk_sandbox_list, husk_sandbox_list_free);

/* --- create -------------------------------------------------------------------------------------- */

struct create_options {
    struct sandbox_options sandbox;
    struct variables variables;
    struct words packages;
};

static void free_create_options(struct create_options *options)
{
    variables_free(&options->variables);
    words_free(&options->packages);
}

/* Packages come afterwards, so that their progress can be seen; if they cannot be had there is no sandbox. */
static int install_into(struct session *session, const struct create_options *options,
                        const char *sandbox)
{
    struct husk_install order = {.packages = options->packages.items,
                                 .package_count = options->packages.count};
    int status = options->packages.count ? setup_install(session, sandbox, &order, true) : 0;
    if (status != EXIT_GOOD)
        (void)husk_close(session->helper, sandbox, NULL);
    return status;
}

int verb_create(const struct invocation *invocation, int argc, char **argv)
{
    _cleanup_(free_create_options) struct create_options options = {};
    const struct option table[] = {SANDBOX_OPTIONS(&options.sandbox),
                                   {"install", 'i', OPTION_WORDS, &options.packages},
                                   {"env", 'e', OPTION_VARIABLES, &options.variables},
                                   {}};
    _cleanup_session_ struct session session = {.line = {.options = table, .most = ANY_NUMBER}};
    _cleanup_(husk_sandbox_free_cleanup) struct husk_sandbox *sandbox = NULL;
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    if (session.line.words.count > 0) {
        say("'%s' is too much: a name is given with --name.", session.line.words.items[0]);
        return EXIT_USAGE;
    }
    if (!session_guard(&session))
        return session.line.status;
    interruption_cancels(NULL);
    struct husk_create order = sandbox_options_order(&options.sandbox);
    order.variables = options.variables.items;
    order.variable_count = options.variables.count;
    if (husk_create(session.husk, &order, &sandbox, &session.error) < 0)
        return session_failed(&session);
    interruption_cancels(session.husk);
    int status = install_into(&session, &options, sandbox->id);
    if (status != EXIT_GOOD)
        return status;
    return session_print(session.invocation->json ? sandbox->json : sandbox->id);
}

/* --- ls and info --------------------------------------------------------------------------------- */

/* How long since, or until, a time; "" if it is not known. */
static void tell_distance(const char *timestamp, bool until, char text[HUMAN_SIZE])
{
    int64_t time = human_time(timestamp), now = wall_seconds();
    int64_t distance = until ? time - now : now - time;
    *text = '\0';
    if (time >= 0)
        human_duration(distance > 0 ? (uint64_t)distance : 0, text);
}

static void add_row(struct table *table, const struct husk_sandbox *sandbox)
{
    char age[HUMAN_SIZE], left[HUMAN_SIZE], memory[HUMAN_SIZE] = "", runs[HUMAN_SIZE];
    tell_distance(sandbox->created_at, false, age);
    tell_distance(sandbox->expires_at, true, left);
    if (sandbox->has_usage)
        human_bytes(sandbox->memory_bytes, memory);
    (void)snprintf(runs, sizeof runs, "%" PRIu64, sandbox->execution_count);
    const char *const cells[] = {sandbox->id, sandbox->name, sandbox->state, age, left,
                                 memory,      runs};
    table_add(table, cells);
}

int verb_ls(const struct invocation *invocation, int argc, char **argv)
{
    _cleanup_session_ struct session session = {};
    _cleanup_(husk_sandbox_list_free_cleanup) struct husk_sandbox_list *list = NULL;
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    if (husk_list(session.husk, &list, &session.error) < 0)
        return session_failed(&session);
    if (session.invocation->json)
        return session_print(list->json);
    _cleanup_(table_free) struct table table = {
        .titles = {"ID", "NAME", "STATE", "AGE", "LEFT", "MEMORY", "RUNS"}, .elastic = 1};
    for (size_t i = 0; i < list->count; i++) {
        if (session.invocation->quiet)
            (void)session_print(list->sandboxes[i]->id);
        else
            add_row(&table, list->sandboxes[i]);
    }
    if (session.invocation->quiet)
        return EXIT_GOOD;
    if (list->count == 0 && session.invocation->terminal)
        say("There are no sandboxes. `husk create` makes one.");
    else
        table_print(&table, session.invocation->terminal);
    return EXIT_GOOD;
}

static void append_line(struct buffer *out, const char *name, const char *format, ...)
    _printf_(3, 4);

static void append_line(struct buffer *out, const char *name, const char *format, ...)
{
    char value[512];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(value, sizeof value, format, arguments);
    va_end(arguments);
    (void)buffer_printf(out, "%-12s%s\n", name, value);
}

static void describe(struct buffer *out, const struct husk_sandbox *sandbox)
{
    char memory[HUMAN_SIZE], disk[HUMAN_SIZE], left[HUMAN_SIZE];
    tell_distance(sandbox->expires_at, true, left);
    append_line(out, "id", "%s", sandbox->id);
    append_line(out, "name", "%s", *sandbox->name ? sandbox->name : "-");
    append_line(out, "state", "%s", sandbox->state);
    append_line(out, "created", "%s", sandbox->created_at);
    append_line(out, "expires", "%s (in %s)", sandbox->expires_at, left);
    if (sandbox->idle_seconds > 0)
        append_line(out, "idle", "ends after %" PRIu64 " s without work", sandbox->idle_seconds);
    append_line(out, "executions", "%" PRIu64 ", %" PRIu64 " waiting", sandbox->execution_count,
                sandbox->queued);
    append_line(out, "commands", "%" PRIu64, sandbox->commands);
    if (sandbox->has_usage) {
        human_bytes(sandbox->memory_bytes, memory);
        human_bytes(sandbox->disk_bytes, disk);
        append_line(out, "memory", "%s of %" PRIu64 " MB", memory, sandbox->memory_mb);
        append_line(out, "disk", "%s of %" PRIu64 " MB", disk, sandbox->disk_mb);
        append_line(out, "processes", "%" PRIu64 " of %" PRIu64, sandbox->used_pids, sandbox->pids);
        append_line(out, "cpu", "%.1f s used, %g at once", sandbox->cpu_seconds, sandbox->cpus);
        return;
    }
    append_line(out, "memory", "%" PRIu64 " MB", sandbox->memory_mb);
    append_line(out, "disk", "%" PRIu64 " MB", sandbox->disk_mb);
    append_line(out, "processes", "%" PRIu64, sandbox->pids);
    append_line(out, "cpu", "%g at once", sandbox->cpus);
}

int verb_info(const struct invocation *invocation, int argc, char **argv)
{
    _cleanup_session_ struct session session = {.line = {.least = 1, .most = 1}};
    _cleanup_(husk_sandbox_free_cleanup) struct husk_sandbox *sandbox = NULL;
    _cleanup_buffer_ struct buffer out = {};
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    if (husk_info(session.husk, session.line.words.items[0], &sandbox, &session.error) < 0)
        return session_failed(&session);
    if (session.invocation->json)
        return session_print(sandbox->json);
    describe(&out, sandbox);
    return say_text(STDOUT_FILENO, out.data, out.length) < 0 ? EXIT_LOCAL : EXIT_GOOD;
}

/* --- close --------------------------------------------------------------------------------------- */

static bool is_certain(size_t count)
{
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return true;
    _cleanup_free_ char *question = must_format(
        "End %zu sandbox%s with all that is in them? [y/N] ", count, count == 1 ? "" : "es");
    (void)write_all(STDERR_FILENO, question, strlen(question));
    _cleanup_free_ char *answer = terminal_read_line(false);
    return answer && (*answer == 'y' || *answer == 'Y');
}

static int close_one(struct session *session, const char *sandbox)
{
    if (husk_close(session->husk, sandbox, &session->error) < 0)
        return session_failed(session);
    return session_success(session, "sandbox_id", sandbox, NULL);
}

static int close_all(struct session *session, bool yes)
{
    _cleanup_(husk_sandbox_list_free_cleanup) struct husk_sandbox_list *list = NULL;
    int status = EXIT_GOOD;
    if (husk_list(session->husk, &list, &session->error) < 0)
        return session_failed(session);
    if (list->count > 0 && !yes && !is_certain(list->count)) {
        say("Nothing was closed.");
        return EXIT_CODE_FAILED;
    }
    for (size_t i = 0; i < list->count; i++) {
        int closed = close_one(session, list->sandboxes[i]->id);
        status = closed != EXIT_GOOD && session->error.http_status != 410 ? closed : status;
    }
    return status;
}

int verb_close(const struct invocation *invocation, int argc, char **argv)
{
    bool all = false, yes = false;
    const struct option table[] = {
        {"all", 'a', OPTION_FLAG, &all}, {"yes", 'y', OPTION_FLAG, &yes}, {}};
    _cleanup_session_ struct session session = {.line = {.options = table, .most = ANY_NUMBER}};
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    const struct words *words = &session.line.words;
    if (all != (words->count == 0)) {
        say("Which ones? `husk close SANDBOX…`, or --all.");
        return EXIT_USAGE;
    }
    int status = all ? close_all(&session, yes) : EXIT_GOOD;
    for (size_t i = 0; i < words->count; i++) {
        int closed = close_one(&session, words->items[i]);
        status = closed != EXIT_GOOD ? closed : status;
    }
    return status;
}
