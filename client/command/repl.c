#include "command/repl.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/memory.h"
#include "command/execute.h"
#include "command/exit_status.h"
#include "command/interruption.h"
#include "command/repl_batch.h"
#include "command/repl_history.h"
#include "command/repl_interrupt.h"
#include "command/repl_signal.h"
#include "command/repl_terminal.h"
#include "command/say.h"
#include "command/terminal.h"
#include "command/verb.h"

const char help_repl[] =
    "A prompt in a sandbox: in the one that is named, else in a new one, which is closed at the "
    "end.\n"
    "\n"
    "Enter runs a cell if the kernel finds it complete, and adds a line, indented, if it does "
    "not;\n"
    "Alt-Enter always adds one. Several lines that are pasted are one cell. The whole cell can be\n"
    "edited: Up and Down go through its lines, then through the history, to cells that begin with "
    "what\n"
    "is typed; Ctrl-R searches the history. Tab completes what the kernel knows; at a line's begin "
    "it\n"
    "indents. name? tells about a name, name?? shows its source. !command and %magic are the "
    "kernel's:\n"
    "!ls, %pip install humanize, %timeit sum(range(100)).\n"
    "\n"
    "Ctrl-C drops the cell that is typed, or interrupts the cell that runs; variables stay. Code "
    "that\n"
    "does not stop within some seconds loses its kernel, which is said: then variables are gone. "
    "Ctrl-D\n"
    "on an empty line, exit and :quit end. input() and getpass() ask here.\n"
    "\n"
    "Figures are saved as figure-1.png, … and shown in terminals that can (kitty, Ghostty, "
    "iTerm2,\n"
    "WezTerm, mintty). Other commands of the prompt: :files, :get, :put, :restart, :help.\n"
    "\n"
    "The history is in $XDG_STATE_HOME/husk/history, else ~/.local/state/husk/history, readable "
    "for you\n"
    "alone; cells that begin with a space are not remembered. Keys can be bound in ~/.editrc, see\n"
    "editrc(5): `husk:bind -v` for those of vi.\n"
    "\n"
    "  -k, --keep           do not close the new sandbox\n"
    "  -o, --output FOLDER  where figures are saved (husk-figures)\n"
    "  --images HOW         auto: saved, and shown where the terminal can; inline: only shown;\n"
    "                       file: only saved; none\n"
    "  -t, --timeout TIME   how long a cell may run (1h, or what the service "
    "allows)\n" SANDBOX_OPTIONS_HELP "\n"
    "If standard input is no terminal, the statements of standard input are run one after the "
    "other,\n"
    "without prompts; the exit status is that of the last one.\n"
    "\n"
    "Examples:\n"
    "  husk repl\n"
    "  husk repl demo\n"
    "  husk repl --memory 4G --keep --name analysis\n"
    "  husk repl demo < cells.py\n";

struct repl_options {
    struct sandbox_options sandbox;
    const char *output, *images;
    double timeout;
    bool keep;
};

DEFINE_CLEANUP(struct husk_sandbox, husk_sandbox_free);

/* --- the sandbox ---------------------------------------------------------------------------------- */

/* The one that is named must be there; else a new one. An exit status. */
static int find_sandbox(struct repl *repl, const char *name)
{
    struct session *session = repl->session;
    _cleanup_(husk_sandbox_free_cleanup) struct husk_sandbox *sandbox = NULL;
    int r = name ? husk_info(session->husk, name, &sandbox, &session->error)
                 : husk_create(session->husk, &repl->order, &sandbox, &session->error);
    if (r < 0)
        return session_failed(session);
    repl->sandbox = must_copy(sandbox->id);
    repl->own = !name;
    repl->count = sandbox->execution_count + 1;
    return EXIT_GOOD;
}

/* By the helper, which nothing cancels. */
static int leave_sandbox(struct repl *repl, int status)
{
    struct session *session = repl->session;
    if (!repl->own || repl->gone)
        return status;
    if (repl->keep) {
        if (!session->invocation->quiet)
            say("kept the sandbox %s: `husk repl %s` comes back to it, `husk close` ends it",
                repl->sandbox, repl->sandbox);
        return status;
    }
    if (husk_close(session->helper, repl->sandbox, &session->error) == 0 ||
        session->error.http_status == 410 || session->error.http_status == 404)
        return status;
    int failed = session_failed(session);
    return status == EXIT_GOOD ? failed : status;
}

/* --- the prompt ----------------------------------------------------------------------------------- */

static bool is_farewell(const char *cell)
{
    static const char *const words[] = {"exit", "quit", "exit()", "quit()"};
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++)
        if (!strcmp(cell, words[i]))
            return true;
    return false;
}

/* False: it is the end. */
static bool take_cell(struct repl *repl, const char *cell)
{
    if (!*cell)
        return true;
    if (is_farewell(cell))
        return false;
    if (*cell == ':')
        return repl_command(repl, cell);
    display_begin(&repl->display, repl->count);
    if (!repl_inspect(repl, cell))
        repl_run(repl, cell);
    write_all(STDOUT_FILENO, "\n", 1);
    return true;
}

static void converse(struct repl *repl)
{
    bool goes_on = true;
    while (goes_on && !signals_ended()) {
        char prompt[32];
        _cleanup_free_ char *cell = NULL;
        (void)snprintf(prompt, sizeof prompt, "In [%llu]: ", (unsigned long long)repl->count);
        display_begin(&repl->display, repl->count);
        terminal_unhush();
        enum editor_outcome outcome = editor_read(repl->editor, prompt, &cell);
        terminal_hush();
        switch (outcome) {
        case EDITOR_CELL:
            goes_on = take_cell(repl, cell);
            break;
        case EDITOR_DROPPED:
            break;
        case EDITOR_END:
        case EDITOR_GONE:
            goes_on = false;
        }
    }
}

static void greet(const struct repl *repl, const char *name)
{
    if (repl->session->invocation->quiet)
        return;
    _cleanup_free_ char *text = must_format(
        "Husk %s, sandbox %s%s\n:help tells more, Ctrl-D ends.\n\n", husk_version(),
        name ? name : repl->sandbox, repl->own && !repl->keep ? ", closed at the end" : "");
    display_text(text, strlen(text));
}

/* A service may hang: Ctrl-C ends that, too. */
static int find_at_prompt(struct repl *repl, const char *name)
{
    struct session *session = repl->session;
    struct interrupter interrupter;
    int r = interrupter_begin(&interrupter, session->husk, repl->messenger, "");
    if (r < 0) {
        say("No thread can be started: %s", strerror(-r));
        return EXIT_LOCAL;
    }
    int status = find_sandbox(repl, name);
    if (!repl_given_up(repl, &interrupter, &session->error))
        return status;
    if (!name && status != EXIT_GOOD)
        say("Given up. If the service has made a sandbox, `husk ls` lists it.");
    return leave_sandbox(repl, signals_ended() ? 128 + signals_ended() : EXIT_INTERRUPTED);
}

static int prompt(struct repl *repl, const char *name)
{
    struct editor_hooks hooks = {
        .completeness = repl_completeness, .complete = repl_complete, .user = repl};
    struct session *session = repl->session;
    if (husk_clone(session->husk, &session->helper, &session->error) < 0 ||
        husk_clone(session->husk, &repl->messenger, &session->error) < 0)
        return session_failed(session);
    int status = find_at_prompt(repl, name);
    if (status != EXIT_GOOD)
        return status;
    struct history *history = history_open();
    repl->editor = editor_new(&hooks, history, repl->display.colours);
    if (repl->editor) {
        greet(repl, name);
        converse(repl);
    } else {
        say("This terminal cannot be used for a prompt.");
        status = EXIT_LOCAL;
    }
    terminal_unhush();
    repl->editor = editor_free(repl->editor);
    history_close(history);
    return leave_sandbox(repl, signals_ended() ? 128 + signals_ended() : status);
}

/* --- without one ---------------------------------------------------------------------------------- */

static int batch(struct repl *repl, const struct repl_options *options, const char *name)
{
    _cleanup_(execute_free) struct execute_options execute = {.output = options->output,
                                                              .timeout = options->timeout};
    execute.auto_install = options->sandbox.auto_install;
    if (!session_guard(repl->session))
        return repl->session->line.status;
    /* Not to be cancelled: it would be made, and nobody would know it. */
    interruption_cancels(NULL);
    int status = find_sandbox(repl, name);
    if (status != EXIT_GOOD)
        return status;
    interruption_cancels(repl->session->husk);
    status = batch_run(repl->session, repl->sandbox, &execute);
    interruption_cancels(NULL);
    return leave_sandbox(repl, status);
}

/* --- the verb ------------------------------------------------------------------------------------- */

static bool read_images(const char *text, enum display_images *ret)
{
    static const char *const names[] = {[IMAGES_AUTO] = "auto",
                                        [IMAGES_INLINE] = "inline",
                                        [IMAGES_FILE] = "file",
                                        [IMAGES_NONE] = "none"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        *ret = (enum display_images)i;
        if (!strcmp(text, names[i]))
            return true;
    }
    say("--images wants auto, inline, file or none, not '%s'.", text);
    return false;
}

int verb_repl(const struct invocation *invocation, int argc, char **argv)
{
    struct repl_options options = {.output = "husk-figures", .images = "auto"};
    const struct option table[] = {SANDBOX_OPTIONS(&options.sandbox),
                                   {"output", 'o', OPTION_TEXT, &options.output},
                                   {"images", '\0', OPTION_TEXT, &options.images},
                                   {"timeout", 't', OPTION_SECONDS, &options.timeout},
                                   {"keep", 'k', OPTION_FLAG, &options.keep},
                                   {}};
    _cleanup_session_ struct session session = {.line = {.options = table, .most = 1}};
    enum display_images images;
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    if (!read_images(options.images, &images))
        return EXIT_USAGE;
    const char *name = session.line.words.count > 0 ? session.line.words.items[0] : NULL;
    struct repl repl = {.session = &session,
                        .order = sandbox_options_order(&options.sandbox),
                        .keep = options.keep,
                        .timeout = options.timeout > 0 ? options.timeout : REPL_TIMEOUT};
    display_init(&repl.display, options.output, images);
    int status;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || session.invocation->json) {
        status = batch(&repl, &options, name);
    } else if (signals_begin() < 0) {
        say("No pipe for signals: %s", strerror(errno));
        status = EXIT_LOCAL;
    } else {
        status = prompt(&repl, name);
        signals_end();
    }
    husk_free(repl.messenger);
    free(repl.sandbox);
    return status;
}
