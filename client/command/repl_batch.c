#include "command/repl_batch.h"

#include <string.h>

#include "base/buffer.h"
#include "base/text.h"
#include "command/execute.h"
#include "command/exit_status.h"
#include "command/interruption.h"
#include "command/say.h"
#include "command/terminal.h"
#include "husk/limits.h"

/* Does the line go on with the statement before it, by its look? */
static bool continues(const char *line)
{
    static const char *const words[] = {"else", "elif", "except", "finally"};
    if (!*line || strchr(" \t)]}#", *line))
        return true;
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        size_t length = strlen(words[i]);
        if (!strncmp(line, words[i], length) && strchr(" :\t", line[length]))
            return true;
    }
    return false;
}

/* What is not known counts as whole: the kernel will say what is wrong with it. */
static bool is_whole(struct session *session, const char *sandbox, const struct buffer *cell,
                     const char *end)
{
    _cleanup_buffer_ struct buffer code = {};
    struct husk_completeness *completeness = NULL;
    if (buffer_append(&code, cell->data, cell->length) < 0 || buffer_append_text(&code, end) < 0 ||
        !buffer_text(&code) ||
        husk_is_complete(session->husk, sandbox, code.data, &completeness, &session->error) < 0)
        return true;
    bool whole = strcmp(completeness->status, "incomplete") != 0;
    husk_completeness_free(completeness);
    return whole;
}

static bool is_blank(const char *text, size_t length)
{
    while (length > 0 && strchr(" \t\n", text[length - 1]))
        length--;
    return length == 0;
}

/* The body of %%magic ends at a blank line. */
static bool is_magic(const struct buffer *cell)
{
    return cell->length > 2 && !memcmp(cell->data, "%%", 2) && cell->data[cell->length - 2] != '\n';
}

static int run_cell(struct session *session, const char *sandbox, struct execute_options *options)
{
    struct show show;
    int status = is_blank(options->text.data, options->text.length)
                     ? EXIT_GOOD
                     : execute_and_show(session, sandbox, options, &show);
    buffer_clear(&options->text);
    return status;
}

int batch_run(struct session *session, const char *sandbox, struct execute_options *options)
{
    struct buffer *cell = &options->text;
    int status = EXIT_GOOD;
    *cell = BUFFER_LIMITED(MAX_CODE_BYTES);
    while (!interruption_signal()) {
        _cleanup_free_ char *line = terminal_read_line(false);
        /* A block ends where the next statement begins, and as if there were a blank line. */
        bool next = !line || (!continues(line) && !is_magic(cell));
        if (cell->length > 0 && next && (!line || is_whole(session, sandbox, cell, "\n\n")))
            status = run_cell(session, sandbox, options);
        if (!line)
            break;
        bool first = cell->length == 0;
        if (buffer_append_text(cell, line) < 0 || buffer_append_text(cell, "\n") < 0) {
            say("The code is too long.");
            return EXIT_USAGE;
        }
        /* A statement of one line is run at once: the next line may be for its input(). */
        cell->length--;
        bool simple = first && is_whole(session, sandbox, cell, "");
        cell->length++;
        if (simple)
            status = run_cell(session, sandbox, options);
    }
    return interruption_signal() ? interruption_status() : status;
}
