/* `husk run`: a sandbox for one program. */
#include <inttypes.h>
#include <string.h>

#include "command/execute.h"
#include "command/exit_status.h"
#include "command/interruption.h"
#include "command/receive.h"
#include "command/sandbox_options.h"
#include "command/say.h"
#include "command/send.h"
#include "command/setup.h"
#include "command/verbs.h"

const char help_run[] =
    "Run a program in a new sandbox, and close it. Without FILE, or with -, the code comes from "
    "standard\n"
    "input; what follows FILE becomes sys.argv. Output comes as it is made, the value of the last "
    "line too,\n"
    "figures are saved as files, input() reads standard input. Ctrl-C ends it.\n"
    "\n" EXECUTE_OPTIONS_HELP "  -i, --install PKG    install this first; may be said again\n"
    "  -u, --upload PATH    send this file or folder first; may be said again\n"
    "  -g, --get PATH       fetch this file or folder afterwards, into --output; may be said "
    "again\n"
    "  -k, --keep           do not close the sandbox\n" SANDBOX_OPTIONS_HELP "\n"
    "The exit status is that of the program: sys.exit(n) gives n, an exception 1, a timeout 124.\n"
    "\n"
    "Examples:\n"
    "  husk run -c 'print(6 * 7)'\n"
    "  husk run --install humanize --timeout 5m report.py --year 2026\n"
    "  husk run --upload sales.csv --get report.csv -o results analyse.py\n";

enum {
    /* Should this program be killed, nothing of the sandbox stays for long. */
    FORGOTTEN_SECONDS = 900
};

struct run_options {
    struct execute_options execute;
    struct sandbox_options sandbox;
    struct words packages, uploads, wanted;
    bool keep;
};

DEFINE_CLEANUP(struct husk_sandbox, husk_sandbox_free);

static void free_options(struct run_options *options)
{
    execute_free(&options->execute);
    words_free(&options->packages);
    words_free(&options->uploads);
    words_free(&options->wanted);
}

/* What stays in the sandbox is lost with it. */
static void mention_files(const struct session *session, const struct run_options *options,
                          const struct show *show)
{
    if (show->files == 0 || options->wanted.count > 0 || session->invocation->quiet ||
        session->invocation->json)
        return;
    say("%" PRIu64
        " file%s (%s%s) went with the sandbox: fetch what you need with --get PATH, or --keep "
        "it",
        show->files, show->files == 1 ? "" : "s", show->first_file, show->files == 1 ? "" : ", …");
}

static int run_inside(struct session *session, const struct run_options *options,
                      const char *sandbox)
{
    struct show show;
    const char *folder = options->execute.output ? options->execute.output : ".";
    if (options->packages.count > 0) {
        struct husk_install order = {.packages = options->packages.items,
                                     .package_count = options->packages.count};
        int status = setup_install(session, sandbox, &order, true);
        if (status != EXIT_GOOD)
            return status;
    }
    for (size_t i = 0; i < options->uploads.count; i++) {
        struct send_order order = {.local = options->uploads.items[i]};
        int status = send_path(session, sandbox, &order);
        if (status != EXIT_GOOD)
            return status;
    }
    int status = execute_and_show(session, sandbox, &options->execute, &show);
    for (size_t i = 0; i < options->wanted.count && !interruption_signal(); i++) {
        struct receive_order order = {
            .path = options->wanted.items[i], .local = folder, .into = true};
        int received = receive_path(session, sandbox, &order);
        status = status == EXIT_GOOD ? received : status;
    }
    if (!options->keep)
        mention_files(session, options, &show);
    return status;
}

/* By the helper, which no signal cancels. */
static int close_it(struct session *session, const char *sandbox, int status)
{
    if (husk_close(session->helper, sandbox, &session->error) == 0 ||
        session->error.http_status == 410 || session->error.http_status == 404)
        return status;
    int failed = session_failed(session);
    return status == EXIT_GOOD ? failed : status;
}

int verb_run(const struct invocation *invocation, int argc, char **argv)
{
    _cleanup_(free_options) struct run_options options = {};
    const struct option table[] = {EXECUTE_OPTIONS(&options.execute),
                                   SANDBOX_OPTIONS(&options.sandbox),
                                   {"install", 'i', OPTION_WORDS, &options.packages},
                                   {"upload", 'u', OPTION_WORDS, &options.uploads},
                                   {"get", 'g', OPTION_WORDS, &options.wanted},
                                   {"keep", 'k', OPTION_FLAG, &options.keep},
                                   {}};
    _cleanup_session_ struct session session = {
        .line = {.options = table, .most = ANY_NUMBER, .free_after = 1}};
    _cleanup_(husk_sandbox_free_cleanup) struct husk_sandbox *sandbox = NULL;
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    int status = execute_load(&options.execute, session.line.words.items, session.line.words.count);
    if (status != 0)
        return status;
    if (!session_guard(&session))
        return session.line.status;
    options.execute.auto_install = options.sandbox.auto_install;
    struct husk_create order = sandbox_options_order(&options.sandbox);
    if (!options.keep && order.idle_seconds == 0)
        order.idle_seconds = FORGOTTEN_SECONDS;
    /* Not to be cancelled: it would be made, and nobody would know it. */
    interruption_cancels(NULL);
    if (husk_create(session.husk, &order, &sandbox, &session.error) < 0)
        return session_failed(&session);
    interruption_cancels(session.husk);
    status =
        interruption_signal() ? interruption_status() : run_inside(&session, &options, sandbox->id);
    interruption_cancels(NULL);
    if (!options.keep)
        return close_it(&session, sandbox->id, status);
    say("kept the sandbox %s: `husk close` ends it", *sandbox->name ? sandbox->name : sandbox->id);
    return status;
}
