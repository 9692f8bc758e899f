#include "command/show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "command/human.h"
#include "command/interruption.h"
#include "command/say.h"
#include "command/terminal.h"

/* To standard output or standard error: as it is, or defused for a terminal. Not 0: stop. */
static int put(struct show *show, int fd, const char *data, size_t length)
{
    int r;
    if (isatty(fd)) {
        _cleanup_buffer_ struct buffer safe = {};
        defuse_text(fd == STDOUT_FILENO ? &show->out : &show->error, data, length, &safe);
        r = write_all(fd, safe.data, safe.length);
    } else {
        r = write_all(fd, data, length);
    }
    if (r < 0)
        show->broken = true;
    return r < 0;
}

static int put_line(struct show *show, int fd, const char *text, size_t length)
{
    if (put(show, fd, text, length))
        return 1;
    return length > 0 && text[length - 1] == '\n' ? 0 : put(show, fd, "\n", 1);
}

static int put_json(struct show *show, const char *json)
{
    return put(show, STDOUT_FILENO, json, strlen(json)) || put(show, STDOUT_FILENO, "\n", 1);
}

static int save_figure(struct show *show, const struct husk_output *picture, bool update)
{
    char name[32], size[HUMAN_SIZE];
    struct failure why;
    if (figures_save(&show->figures, picture, update, name, &why) < 0) {
        say("%s", why.text);
        return 0;
    }
    human_bytes(picture->data.length, size);
    bool here = !strcmp(show->figures.folder, ".");
    if (!show->invocation->quiet)
        say("saved %s%s%s (%s)", here ? "" : show->figures.folder, here ? "" : "/", name, size);
    return 0;
}

/* A picture becomes a file; anything else is shown as text, as a prompt does. */
static int show_output(struct show *show, const struct husk_event *event)
{
    const struct husk_output *picture = figures_choose(event->outputs, event->output_count);
    if (picture && show->figures.folder)
        return save_figure(show, picture, event->kind == HUSK_EVENT_UPDATE);
    for (size_t i = 0; i < event->output_count; i++) {
        const struct husk_text *text = &event->outputs[i].data;
        if (!strcmp(event->outputs[i].type, "text/plain"))
            return put_line(show, STDOUT_FILENO, text->data, text->length);
    }
    return 0;
}

/* sys.exit(): the exit status says it, and a message, as Python does it. */
static int show_exit(struct show *show, const char *value)
{
    bool message = value && *value && strcmp(value, "None") != 0 &&
                   strspn(value, "-0123456789") != strlen(value);
    return message ? put_line(show, STDERR_FILENO, value, strlen(value)) : 0;
}

static int show_error(struct show *show, const struct husk_event *event)
{
    show->told = true;
    if (event->error && !strcmp(event->error, "SystemExit"))
        return show_exit(show, event->error_value);
    if (event->traceback && *event->traceback)
        return put_line(show, STDERR_FILENO, event->traceback, strlen(event->traceback));
    _cleanup_buffer_ struct buffer line = {};
    (void)buffer_printf(&line, "%s: %s\n", event->error ? event->error : "Error",
                        event->error_value ? event->error_value : "");
    return put(show, STDERR_FILENO, line.data, line.length);
}

/* input(): the prompt goes to standard output, as Python's does; the answer is a line of standard input. */
static int answer(struct show *show, const struct husk_event *event)
{
    struct husk_error error;
    if (!show->invocation->json && put(show, STDOUT_FILENO, event->text.data, event->text.length))
        return 1;
    _cleanup_free_ char *line = terminal_read_line(event->password);
    if (interruption_signal())
        return 1;
    if (husk_input(show->helper, show->sandbox, line, &error) < 0) {
        say("%s", error.message);
        return 1;
    }
    return 0;
}

static void count_file(struct show *show, const struct husk_file *file)
{
    if (show->files++ == 0)
        (void)snprintf(show->first_file, sizeof show->first_file, "%s", file->path);
}

int show_event(const struct husk_event *event, void *user)
{
    struct show *show = user;
    if (event->kind == HUSK_EVENT_FILE && event->file)
        count_file(show, event->file);
    if (show->invocation->json) {
        int r = put_json(show, event->json);
        return r || event->kind != HUSK_EVENT_INPUT ? r : answer(show, event);
    }
    switch (event->kind) {
    case HUSK_EVENT_STDOUT:
        return put(show, STDOUT_FILENO, event->text.data, event->text.length);
    case HUSK_EVENT_STDERR:
        return put(show, STDERR_FILENO, event->text.data, event->text.length);
    case HUSK_EVENT_RESULT:
    case HUSK_EVENT_UPDATE:
        return show_output(show, event);
    case HUSK_EVENT_ERROR:
        return show_error(show, event);
    case HUSK_EVENT_INPUT:
        return answer(show, event);
    case HUSK_EVENT_DROPPED:
        say("%" PRIu64 " pieces of output are missing: they came faster than they were read",
            event->index);
        return 0;
    default:
        return 0;
    }
}

void show_result(struct show *show, const struct husk_result *result)
{
    show_end(show);
    if (show->invocation->json) {
        (void)put_json(show, result->json);
        return;
    }
    /* A kernel that died had no last words. */
    if (result->error && !show->told && strcmp(result->status, "timeout") != 0)
        say("%s: %s", result->error, result->error_value ? result->error_value : "");
    if (show->invocation->quiet)
        return;
    if (result->truncated)
        say("some output is missing: there was too much of it");
    if (result->state_lost)
        say("the kernel was started anew: its variables are gone");
    if (!strcmp(result->status, "timeout"))
        say("%s It may have more with --timeout TIME.",
            result->error_value ? result->error_value : "It did not end in time.");
}

static void finish(struct defuse *defuse, int fd)
{
    _cleanup_buffer_ struct buffer rest = {};
    defuse_end(defuse, &rest);
    if (rest.length > 0)
        (void)write_all(fd, rest.data, rest.length);
}

void show_end(struct show *show)
{
    finish(&show->out, STDOUT_FILENO);
    finish(&show->error, STDERR_FILENO);
}
