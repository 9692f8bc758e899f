#include "command/execute.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "command/exit_status.h"
#include "command/interruption.h"
#include "command/say.h"
#include "command/source.h"
#include "command/terminal.h"
#include "husk/limits.h"

DEFINE_CLEANUP(struct husk_result, husk_result_free);

int execute_load(struct execute_options *options, const char *const *words, size_t count)
{
    struct failure why;
    if (options->code) {
        options->program = "-c";
        options->arguments = words;
        options->argument_count = count;
        if (strlen(options->code) <= MAX_CODE_BYTES &&
            buffer_append_text(&options->text, options->code) == 0)
            return 0;
        say("The code is too long.");
        return EXIT_USAGE;
    }
    if (count == 0 && isatty(STDIN_FILENO)) {
        say("There is no code: name a file, say -c CODE, or send it to standard input. `husk repl` "
            "is a "
            "prompt.");
        return EXIT_USAGE;
    }
    options->program = count > 0 ? words[0] : "-";
    options->arguments = count > 0 ? words + 1 : NULL;
    options->argument_count = count > 0 ? count - 1 : 0;
    if (source_read(options->program, MAX_CODE_BYTES, &options->text, &why) < 0) {
        say("%s", why.text);
        return EXIT_LOCAL;
    }
    return 0;
}

void execute_free(struct execute_options *options)
{
    buffer_free(&options->text);
    variables_free(&options->variables);
}

static void append_argument(struct buffer *code, const char *word)
{
    (void)buffer_append_text(code, "bytes.fromhex('");
    for (; *word; word++)
        (void)buffer_printf(code, "%02x", (unsigned char)*word);
    (void)buffer_append_text(code, "').decode('utf-8', 'surrogateescape'),");
}

/* sys.argv is set by an execution of its own, so that lines of tracebacks are those of the file. Bytes as hexadecimal digits
 * need no quoting, and names may be anything. */
static int set_arguments(struct session *session, const char *sandbox,
                         const struct execute_options *options)
{
    _cleanup_buffer_ struct buffer code = {};
    (void)buffer_append_text(&code, "__import__('sys').argv = [");
    append_argument(&code, options->program);
    for (size_t i = 0; i < options->argument_count; i++)
        append_argument(&code, options->arguments[i]);
    (void)buffer_append_text(&code, "]");
    _cleanup_(husk_result_free_cleanup) struct husk_result *result = NULL;
    struct husk_code order = {.code = buffer_text(&code), .length = code.length};
    return husk_execute(session->husk, sandbox, &order, &result, &session->error);
}

/* Nobody reads on: that is as good as a signal, and a shell calls it 141. */
static int ended(const struct session *session, const struct show *show)
{
    if (show->broken && !interruption_signal())
        return 128 + SIGPIPE;
    return session_failed(session);
}

int execute_and_show(struct session *session, const char *sandbox,
                     const struct execute_options *options, struct show *show)
{
    _cleanup_(husk_result_free_cleanup) struct husk_result *result = NULL;
    *show = (struct show){.invocation = session->invocation,
                          .helper = session->helper,
                          .sandbox = sandbox,
                          .figures.folder = options->output ? options->output : "."};
    struct husk_code order = {.code = options->text.length ? options->text.data : "",
                              .length = options->text.length,
                              .timeout = options->timeout,
                              .ask = true,
                              .variables = options->variables.items,
                              .variable_count = options->variables.count,
                              .colors =
                                  terminal_has_colours(STDERR_FILENO) && !session->invocation->json,
                              .auto_install = options->auto_install};
    if (options->program && set_arguments(session, sandbox, options) < 0)
        return session_failed(session);
    int r = husk_execute_streaming(session->husk, sandbox, &order, show_event, show, &result,
                                   &session->error);
    show_end(show);
    if (r < 0)
        return ended(session, show);
    show_result(show, result);
    return exit_of_result(result);
}
