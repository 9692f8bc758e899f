/* `husk exec` and `husk sh`: code and commands in a sandbox that exists. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "command/execute.h"
#include "command/exit_status.h"
#include "command/interruption.h"
#include "command/say.h"
#include "command/source.h"
#include "command/verbs.h"
#include "husk/limits.h"

const char help_exec[] =
    "Run code in a sandbox that exists; its variables stay. Without FILE, or with -, the code "
    "comes from\n"
    "standard input; what follows FILE becomes sys.argv.\n"
    "\n" EXECUTE_OPTIONS_HELP
    "  --auto-install       modules that it imports and that are not there are installed first\n"
    "\n"
    "Examples:\n"
    "  husk exec demo -c 'x = 6 * 7'\n"
    "  husk exec demo -c 'x'\n"
    "  echo 'print(x)' | husk exec demo\n";

const char help_sh[] =
    "Run a command in a sandbox, beside its code: one word is for the shell, several are a program "
    "and its\n"
    "arguments as they are. Standard input is passed on if it is no terminal. The exit status is "
    "the\n"
    "command's.\n"
    "\n"
    "  -C, --cwd FOLDER     where it runs (/home/user)\n"
    "  -t, --timeout TIME   how long it may run\n"
    "  -e, --env NAME=VALUE a variable of its environment; NAME alone: as it is here\n"
    "  -n, --no-stdin       do not read standard input\n"
    "\n"
    "Examples:\n"
    "  husk sh demo 'ls -l | wc -l'\n"
    "  husk sh demo python -m pytest -q\n"
    "  husk sh demo 'cat > notes.txt' < notes.txt\n";

DEFINE_CLEANUP(struct husk_result, husk_result_free);

int verb_exec(const struct invocation *invocation, int argc, char **argv)
{
    _cleanup_(execute_free) struct execute_options options = {};
    const struct option table[] = {
        EXECUTE_OPTIONS(&options), {"auto-install", '\0', OPTION_FLAG, &options.auto_install}, {}};
    _cleanup_session_ struct session session = {
        .line = {.options = table, .least = 1, .most = ANY_NUMBER, .free_after = 2}};
    struct show show;
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    const struct words *words = &session.line.words;
    int status = execute_load(&options, words->items + 1, words->count - 1);
    if (status != 0)
        return status;
    /* The kernel lives on: its sys.argv is not ours, unless there are arguments. */
    if (options.argument_count == 0)
        options.program = NULL;
    if (!session_guard(&session))
        return session.line.status;
    return execute_and_show(&session, words->items[0], &options, &show);
}

struct sh_options {
    const char *cwd;
    double timeout;
    struct variables variables;
    bool no_stdin;
    struct buffer input;
};

static void free_sh_options(struct sh_options *options)
{
    variables_free(&options->variables);
    buffer_free(&options->input);
}

static int load_input(struct sh_options *options)
{
    struct failure why;
    if (options->no_stdin || isatty(STDIN_FILENO))
        return EXIT_GOOD;
    if (source_read("-", MAX_STDIN_BYTES, &options->input, &why) < 0) {
        say("%s Send larger things with `husk put`, or say --no-stdin.", why.text);
        return EXIT_LOCAL;
    }
    if (options->input.length > 0 && memchr(options->input.data, '\0', options->input.length)) {
        say("Standard input has zero bytes: send binary files with `husk put`, or say --no-stdin.");
        return EXIT_LOCAL;
    }
    return EXIT_GOOD;
}

static int run_command(struct session *session, const struct sh_options *options,
                       struct husk_command *command)
{
    _cleanup_(husk_result_free_cleanup) struct husk_result *result = NULL;
    struct show show = {.invocation = session->invocation,
                        .helper = session->helper,
                        .sandbox = session->line.words.items[0]};
    command->cwd = options->cwd;
    command->timeout = options->timeout;
    command->variables = options->variables.items;
    command->variable_count = options->variables.count;
    int r = husk_command_streaming(session->husk, show.sandbox, command, show_event, &show, &result,
                                   &session->error);
    show_end(&show);
    if (r < 0 && show.broken && !interruption_signal())
        return 128 + SIGPIPE;
    if (r < 0)
        return session_failed(session);
    show_result(&show, result);
    return exit_of_result(result);
}

int verb_sh(const struct invocation *invocation, int argc, char **argv)
{
    _cleanup_(free_sh_options) struct sh_options options = {};
    const struct option table[] = {{"cwd", 'C', OPTION_TEXT, &options.cwd},
                                   {"timeout", 't', OPTION_SECONDS, &options.timeout},
                                   {"env", 'e', OPTION_VARIABLES, &options.variables},
                                   {"no-stdin", 'n', OPTION_FLAG, &options.no_stdin},
                                   {}};
    _cleanup_session_ struct session session = {
        .line = {.options = table, .least = 2, .most = ANY_NUMBER, .free_after = 2}};
    if (!session_begin(&session, invocation, argc, argv))
        return session.line.status;
    int status = load_input(&options);
    if (status != EXIT_GOOD)
        return status;
    if (!session_guard(&session))
        return session.line.status;
    const struct words *words = &session.line.words;
    struct husk_command command = {.stdin_text = buffer_text(&options.input)};
    if (options.input.length == 0)
        command.stdin_text = NULL;
    if (words->count == 2) {
        command.command = words->items[1];
    } else {
        command.arguments = words->items + 1;
        command.argument_count = words->count - 1;
    }
    return run_command(&session, &options, &command);
}
