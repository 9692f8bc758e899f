#include "command/repl_editor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/failure.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "command/repl_editor_inside.h"
#include "command/repl_history.h"
#include "command/repl_signal.h"
#include "command/terminal.h"
#include "command/wide.h"
#include "husk.h"

struct editor *editor_of(EditLine *line)
{
    void *editor = NULL;
    el_wget(line, EL_CLIENTDATA, &editor);
    return editor;
}

/* --- the text ------------------------------------------------------------------------------------- */

wchar_t *editor_shown(const struct editor *editor, size_t *cursor)
{
    const LineInfoW *line = el_wline(editor->line);
    size_t length = (size_t)(line->lastchar - line->buffer);
    wchar_t *shown = must_alloc((length + 1) * sizeof *shown);
    wmemcpy(shown, line->buffer, length);
    *cursor = (size_t)(line->cursor - line->buffer);
    return shown;
}

wchar_t *editor_text(const struct editor *editor, size_t *cursor)
{
    _cleanup_free_ wchar_t *shown = editor_shown(editor, cursor);
    *cursor = margin_count(shown, *cursor);
    wchar_t *text = margin_strip(shown, wcslen(shown));
    husk_assert(text);
    return text;
}

/* Without a look at what it is. */
static void set_shown(struct editor *editor, const wchar_t *shown, size_t cursor)
{
    int length = (int)wcslen(shown);
    const LineInfoW *line = el_wline(editor->line);
    el_cursor(editor->line, (int)(line->lastchar - line->cursor));
    el_wdeletestr(editor->line, (int)(line->lastchar - line->buffer));
    if (length > 0 && el_winsertstr(editor->line, shown) == 0)
        el_cursor(editor->line, (int)cursor - length);
}

void editor_replace(struct editor *editor, const wchar_t *text, size_t cursor)
{
    _cleanup_free_ wchar_t *shown = margin_add(&editor->margin, text);
    husk_assert(shown);
    set_shown(editor, shown, margin_find(shown, wcslen(shown), cursor));
}

void editor_insert(struct editor *editor, const wchar_t *text)
{
    _cleanup_free_ wchar_t *shown = margin_add(&editor->margin, text);
    husk_assert(shown);
    el_winsertstr(editor->line, shown);
}

size_t editor_line_start(const wchar_t *text, size_t place)
{
    while (place > 0 && text[place - 1] != L'\n')
        place--;
    return place;
}

unsigned char editor_finish(struct editor *editor, enum editor_end end)
{
    editor->end = end;
    editor->pressed = KEY_FINISH;
    return CC_NORM;
}

/* Is there something to put right? */
static bool needs_repair(struct editor *editor)
{
    size_t cursor;
    _cleanup_free_ wchar_t *shown = editor_shown(editor, &cursor);
    _cleanup_free_ wchar_t *repaired = NULL;
    size_t wanted = cursor;
    bool needed = margin_repair(&editor->margin, shown, editor->before, &wanted, &repaired);
    if (needed)
        set_shown(editor, repaired ? repaired : shown, wanted);
    editor->before = wanted;
    return needed;
}

/* --- keys ----------------------------------------------------------------------------------------- */

/* How many rows the cursor is below the prompt, if the terminal is that wide. */
static unsigned cursor_row(const struct editor *editor)
{
    size_t cursor;
    _cleanup_free_ wchar_t *shown = editor_shown(editor, &cursor);
    unsigned width = terminal_width(STDOUT_FILENO), row = 0,
             column = (unsigned)wcslen(editor->shown_prompt);
    for (size_t i = 0; i < cursor; i++) {
        int taken = shown[i] == L'\t' ? 8 - (int)column % 8 : wcwidth(shown[i]);
        column += taken > 0 ? (unsigned)taken : 0;
        if (shown[i] == L'\n' || column >= width) {
            column = 0;
            row++;
        }
    }
    return row;
}

/* What the terminal did to the cell when it became narrower or wider is not known to libedit: it is drawn anew. */
static void resize(struct editor *editor)
{
    unsigned row = cursor_row(editor);
    if (row > 0)
        fprintf(editor->out, "\033[%uA", row);
    fputs("\r\033[J", editor->out);
    el_resize(editor->line);
    el_wset(editor->line, EL_REFRESH);
}

static void stop(struct editor *editor)
{
    el_wset(editor->line, EL_PREP_TERM, 0);
    fputs("\n", editor->out);
    fflush(editor->out);
    raise(SIGSTOP);
    el_wset(editor->line, EL_PREP_TERM, 1);
    el_resize(editor->line);
    el_wset(editor->line, EL_REFRESH);
}

static void on_signal(struct editor *editor)
{
    int number = signals_take();
    if (number == SIGWINCH)
        resize(editor);
    else if (number == SIGTSTP)
        stop(editor);
    else if (number == SIGINT)
        editor->pressed = KEY_DROP;
}

/* A whole character of UTF-8. 1, 0 at the end, -1. */
static int read_one(wchar_t *ret)
{
    mbstate_t state = {};
    for (;;) {
        char byte;
        ssize_t got = read_some(STDIN_FILENO, &byte, 1);
        if (got == -EAGAIN || got == -EIO)
            return -1;
        if (got <= 0)
            return got < 0 ? -1 : 0;
        size_t length = mbrtowc(ret, &byte, 1, &state);
        if (length == (size_t)-1)
            state = (mbstate_t){};
        else if (length != (size_t)-2)
            return 1;
    }
}

/* Those keys are pressed by us alone. NUL comes from a terminal for a Ctrl-D that was typed while a cell ran. */
static bool is_own(wchar_t key)
{
    return key == KEY_SEARCH || (key >= KEY_REPAIR && key <= KEY_DROP);
}

/* libedit's way to a key, instead of its own. Before one that nobody has pressed yet. */
static int read_key(EditLine *line, wchar_t *ret)
{
    struct editor *editor = editor_of(line);
    if (editor->pressed < 0 && !editor->searching && needs_repair(editor))
        editor->pressed = KEY_REPAIR;
    while (editor->pressed < 0 && editor->unread == WEOF) {
        struct pollfd ready[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                                 {.fd = signals_descriptor(), .events = POLLIN}};
        if (poll(ready, ARRAY_LENGTH(ready), -1) < 0 && errno != EINTR)
            return -1;
        if (signals_ended()) {
            editor->end = END_GONE;
            return -1;
        }
        if (ready[1].revents) {
            on_signal(editor);
        } else if (ready[0].revents) {
            int r = read_one(ret);
            if (r != 1)
                editor->end = END_GONE;
            else if (is_own(*ret))
                continue;
            if (r != 1 || !editor->searching)
                return r;
            editor->character = (wint_t)*ret;
            editor->pressed = KEY_SEARCH;
        }
    }
    if (editor->pressed >= 0) {
        *ret = editor->pressed;
        editor->pressed = -1;
    } else {
        *ret = (wchar_t)editor->unread;
        editor->unread = WEOF;
    }
    return 1;
}

static wchar_t *prompt(EditLine *line)
{
    struct editor *editor = editor_of(line);
    size_t room = ARRAY_LENGTH(editor->shown_prompt);
    if (editor->searching)
        swprintf(editor->shown_prompt, room, L"search back: %ls: ", editor->wanted);
    else
        wcscpy(editor->shown_prompt, editor->prompt.text);
    return editor->shown_prompt;
}

/* --- life ----------------------------------------------------------------------------------------- */

struct editor *editor_new(const struct editor_hooks *hooks, struct history *history, bool colours)
{
    struct editor *editor = must_alloc(sizeof *editor);
    *editor = (struct editor){
        .hooks = *hooks, .history = history, .colours = colours, .pressed = -1, .unread = WEOF};
    editor->out = margin_stream(STDOUT_FILENO, colours);
    if (editor->out)
        editor->line = el_init_fd("husk", stdin, editor->out, editor->out, STDIN_FILENO,
                                  STDOUT_FILENO, STDOUT_FILENO);
    if (!editor->line)
        return editor_free(editor);
    el_wset(editor->line, EL_CLIENTDATA, editor);
    el_wset(editor->line, EL_EDITOR, L"emacs");
    el_source(editor->line, NULL);
    el_wset(editor->line, EL_SIGNAL, 0);
    el_wset(editor->line, EL_PROMPT, prompt);
    el_wset(editor->line, EL_GETCFN, read_key);
    editor_bind(editor);
    return editor;
}

struct editor *editor_free(struct editor *editor)
{
    if (!editor)
        return NULL;
    editor_leave_history(editor);
    if (editor->line)
        el_end(editor->line);
    if (editor->out)
        fclose(editor->out);
    husk_completion_free(editor->matches);
    free(editor->kept);
    free(editor->killed);
    free(editor);
    return NULL;
}

void editor_keep(struct editor *editor, const char *cell)
{
    free(editor->kept);
    editor->kept = wide_of(cell);
    editor->kept_cursor = editor->kept ? wcslen(editor->kept) : 0;
}

/* --- reading -------------------------------------------------------------------------------------- */

static void read_line(struct editor *editor)
{
    int length = 0;
    editor->end = END_NONE;
    editor->before = 0;
    editor->searching = false;
    editor->pressed = editor->kept ? KEY_RESTORE : -1;
    editor_leave_history(editor);
    /* libedit would show the prompt first: what somebody types in between would be shown by the terminal, line ends and all. */
    el_wset(editor->line, EL_PREP_TERM, 1);
    el_wgets(editor->line, &length);
    if (editor->end == END_NONE)
        editor->end = END_GONE;
}

/* The text without what is blank at its end. */
static char *take_cell(struct editor *editor)
{
    size_t cursor;
    _cleanup_free_ wchar_t *text = editor_text(editor, &cursor);
    size_t length = wcslen(text);
    while (length > 0 && wcschr(L" \t\n", text[length - 1]))
        length--;
    text[length] = 0;
    if (length > 0)
        history_remember(editor->history, text);
    char *cell = narrow_of(text);
    husk_assert(cell);
    return cell;
}

enum editor_outcome editor_read(struct editor *editor, const char *text, char **ret)
{
    static const enum editor_outcome outcomes[] = {
        [END_CELL] = EDITOR_CELL,
        [END_DROPPED] = EDITOR_DROPPED,
        [END_INPUT] = EDITOR_END,
        [END_GONE] = EDITOR_GONE,
    };
    margin_set(&editor->prompt, text);
    margin_continue(&editor->margin, editor->prompt.length);
    signals_catch_stop(true);
    fputs("\033[?2004h", editor->out);
    do {
        read_line(editor);
        if (editor->end == END_LIST)
            editor_list(editor);
    } while (editor->end == END_LIST);
    fputs("\033[?2004l", editor->out);
    fflush(editor->out);
    signals_catch_stop(false);
    if (editor->end == END_CELL)
        *ret = take_cell(editor);
    return outcomes[editor->end];
}
