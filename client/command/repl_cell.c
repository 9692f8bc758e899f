#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/fdio.h"
#include "base/memory.h"
#include "base/text.h"
#include "command/repl.h"
#include "command/repl_interrupt.h"
#include "command/repl_signal.h"
#include "command/repl_terminal.h"
#include "command/wide.h"

DEFINE_CLEANUP(struct husk_sandbox, husk_sandbox_free);
DEFINE_CLEANUP(struct husk_result, husk_result_free);
DEFINE_CLEANUP(struct husk_inspection, husk_inspection_free);

/* --- the sandbox ---------------------------------------------------------------------------------- */

static bool make_sandbox(struct repl *repl)
{
    _cleanup_(husk_sandbox_free_cleanup) struct husk_sandbox *sandbox = NULL;
    struct session *session = repl->session;
    if (husk_create(session->husk, &repl->order, &sandbox, &session->error) < 0) {
        display_note(&repl->display, "No sandbox: %s", session->error.message);
        return false;
    }
    if (repl->gone)
        display_note(&repl->display, "A new sandbox: %s",
                     *sandbox->name ? sandbox->name : sandbox->id);
    free(repl->sandbox);
    repl->sandbox = must_copy(sandbox->id);
    repl->own = true;
    repl->gone = false;
    repl->count = sandbox->execution_count + 1;
    return true;
}

bool repl_sandbox(struct repl *repl)
{
    return (repl->sandbox && !repl->gone) || make_sandbox(repl);
}

/* --- what went wrong ------------------------------------------------------------------------------ */

static bool is_gone(const struct husk_error *error)
{
    return error->kind == HUSK_ERROR_REFUSED &&
           (!strcmp(error->code, "sandbox_closed") || !strcmp(error->code, "sandbox_not_found"));
}

/* Did it never run? Then it stands at the next prompt. */
static void tell(struct repl *repl, const struct husk_error *error, const char *cell)
{
    struct display *display = &repl->display;
    switch (error->kind) {
    case HUSK_ERROR_CANCELLED:
        display_note(display, "Given up: it does not run, or is being interrupted.");
        return;
    case HUSK_ERROR_BROKEN:
    case HUSK_ERROR_TIMEOUT:
    case HUSK_ERROR_ANSWER:
        display_note(display, "%s", error->message);
        display_note(display,
                     "The cell may have run, or still run. The next one connects anew; if it has "
                     "to wait, Ctrl-C interrupts this one.");
        repl->orphan = true;
        return;
    case HUSK_ERROR_CONNECT:
        display_note(display, "%s", error->message);
        display_note(display, "The cell was not run. Enter tries again.");
        break;
    default:
        display_note(display, "%s", error->message);
    }
    if (is_gone(error)) {
        repl->gone = true;
        display_note(display, "What was in the sandbox is gone. The next cell runs in a new one; "
                              "Ctrl-D ends.");
    }
    editor_keep(repl->editor, cell);
}

/* --- running -------------------------------------------------------------------------------------- */

struct run {
    struct repl *repl;
    struct interrupter interrupter;
};

/* input() and getpass(). */
static int ask(struct run *run, const struct husk_event *event)
{
    struct repl *repl = run->repl;
    struct husk_error error;
    bool stopped;
    _cleanup_free_ char *line = terminal_ask(interrupter_descriptor(&run->interrupter), &stopped);
    /* A line that was typed and shown has ended the line. */
    if (event->password || !line)
        write_all(STDOUT_FILENO, "\n", 1);
    display_answered(&repl->display);
    if (stopped || husk_input(repl->session->helper, repl->sandbox, line, &error) == 0)
        return 0;
    display_note(&repl->display, "%s", error.message);
    return 0;
}

static int on_event(const struct husk_event *event, void *user)
{
    struct run *run = user;
    if (event->kind == HUSK_EVENT_START) {
        interrupter_started(&run->interrupter);
        run->repl->orphan = false;
    }
    if (event->kind == HUSK_EVENT_INPUT)
        terminal_listen(event->password);
    int r = display_event(&run->repl->display, event);
    return r == 0 && event->kind == HUSK_EVENT_INPUT ? ask(run, event) : r;
}

bool repl_given_up(struct repl *repl, struct interrupter *interrupter,
                   const struct husk_error *error)
{
    bool given_up = interrupter_end(interrupter);
    struct husk_health *health = NULL;
    /* A cancellation that came too late must not hit the next call. */
    if (given_up && error->kind != HUSK_ERROR_CANCELLED &&
        husk_health(repl->session->husk, &health, NULL) == 0)
        husk_health_free(health);
    return given_up;
}

static int execute(struct repl *repl, const char *cell, struct husk_result **ret)
{
    struct session *session = repl->session;
    struct run run = {.repl = repl};
    struct husk_code code = {.code = cell,
                             .timeout = repl->timeout,
                             .ask = true,
                             .colors = repl->display.colours,
                             .auto_install = repl->order.auto_install};
    int r = interrupter_begin(&run.interrupter, session->husk, repl->messenger, repl->sandbox);
    if (r < 0) {
        session->error = (struct husk_error){.kind = HUSK_ERROR_MEMORY};
        (void)format_text(session->error.message, sizeof session->error.message,
                          "no thread can be started: %s", strerror(-r));
        return -HUSK_ERROR_MEMORY;
    }
    if (repl->orphan)
        interrupter_started(&run.interrupter);
    r = husk_execute_streaming(session->husk, repl->sandbox, &code, on_event, &run, ret,
                               &session->error);
    (void)repl_given_up(repl, &run.interrupter, &session->error);
    return r;
}

/* A service may allow less time than we ask for: then it decides. */
static bool asks_too_much(struct repl *repl)
{
    const struct husk_error *error = &repl->session->error;
    if (error->http_status != 422 || repl->timeout != REPL_TIMEOUT ||
        !strstr(error->message, "timeout"))
        return false;
    repl->timeout = 0;
    return true;
}

void repl_run(struct repl *repl, const char *cell)
{
    _cleanup_(husk_result_free_cleanup) struct husk_result *result = NULL;
    if (!repl_sandbox(repl)) {
        editor_keep(repl->editor, cell);
        return;
    }
    display_begin(&repl->display, repl->count);
    int r;
    do {
        repl->session->error = (struct husk_error){};
        r = execute(repl, cell, &result);
    } while (r < 0 && asks_too_much(repl));
    display_end(&repl->display, r == 0 ? result : NULL);
    if (r < 0)
        tell(repl, &repl->session->error, cell);
    else if (result->state_lost)
        repl->count = 1;
    else if (result->execution_count > 0)
        repl->count = result->execution_count + 1;
}

/* --- questions to the kernel ---------------------------------------------------------------------- */

/* A question may take long: the first completion does. Ctrl-C ends it. */
static bool question_begin(struct repl *repl, struct interrupter *interrupter)
{
    return !repl->gone &&
           interrupter_begin(interrupter, repl->session->husk, repl->messenger, repl->sandbox) == 0;
}

static void question_end(struct repl *repl, struct interrupter *interrupter,
                         const struct husk_error *error)
{
    /* The editor drops what is typed. */
    if (repl_given_up(repl, interrupter, error) && !signals_ended())
        raise(SIGINT);
}

struct husk_completeness *repl_completeness(const char *code, void *user)
{
    struct repl *repl = user;
    struct interrupter interrupter;
    struct husk_error error = {};
    struct husk_completeness *completeness = NULL;
    if (!question_begin(repl, &interrupter))
        return NULL;
    if (husk_is_complete(repl->session->husk, repl->sandbox, code, &completeness, &error) < 0)
        completeness = NULL;
    question_end(repl, &interrupter, &error);
    return completeness;
}

struct husk_completion *repl_complete(const char *code, size_t cursor, void *user)
{
    struct repl *repl = user;
    struct interrupter interrupter;
    struct husk_error error = {};
    struct husk_completion *completion = NULL;
    if (!question_begin(repl, &interrupter))
        return NULL;
    if (husk_complete(repl->session->husk, repl->sandbox, code, cursor, &completion, &error) < 0)
        completion = NULL;
    question_end(repl, &interrupter, &error);
    return completion;
}

/* The name in "name?", "name??" or "?name", for free(); NULL: it is something else. Names with * are left to the kernel. */
static char *asked_name(const char *cell, int *detail)
{
    size_t start = strspn(cell, "? "), end = strlen(cell);
    size_t marks = start;
    for (; end > start && strchr("? ", cell[end - 1]); end--)
        marks += cell[end - 1] == '?';
    if (marks == 0 || start == end)
        return NULL;
    *detail = strstr(cell, "??") != NULL;
    for (size_t i = start; i < end; i++)
        if (strchr(" \t\n*?=(){},;#", cell[i]))
            return NULL;
    return must_format("%.*s", (int)(end - start), cell + start);
}

bool repl_inspect(struct repl *repl, const char *cell)
{
    int detail = 0;
    _cleanup_(husk_inspection_free_cleanup) struct husk_inspection *found = NULL;
    _cleanup_free_ char *name = asked_name(cell, &detail);
    _cleanup_free_ wchar_t *wide = name ? wide_of(name) : NULL;
    if (!wide)
        return false;
    struct session *session = repl->session;
    if (!repl_sandbox(repl))
        return true;
    struct interrupter interrupter;
    session->error = (struct husk_error){};
    if (!question_begin(repl, &interrupter))
        return true;
    int r = husk_inspect(session->husk, repl->sandbox, name, wcslen(wide), detail, &found,
                         &session->error);
    (void)repl_given_up(repl, &interrupter, &session->error);
    if (r < 0)
        tell(repl, &session->error, cell);
    else if (found->found)
        display_text(found->text.data, found->text.length);
    else
        display_note(&repl->display, "There is no %s.", name);
    return true;
}
