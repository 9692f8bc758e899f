/* What the keys do. Functions get the text without margins, change it and let libedit show it. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#include "base/attributes.h"
#include "base/failure.h"
#include "command/repl_editor_inside.h"
#include "command/repl_signal.h"
#include "command/wide.h"
#include "husk.h"
#include "husk/limits.h"

static unsigned char go(struct editor *editor, size_t place)
{
    size_t cursor;
    _cleanup_free_ wchar_t *shown = editor_shown(editor, &cursor);
    el_cursor(editor->line, (int)margin_find(shown, wcslen(shown), place) - (int)cursor);
    return CC_REFRESH;
}

static size_t line_end(const wchar_t *text, size_t place)
{
    while (text[place] && text[place] != L'\n')
        place++;
    return place;
}

/* Take characters out of the text; the cursor is where they were. */
static unsigned char take_out(struct editor *editor, wchar_t *text, size_t from, size_t to)
{
    wmemmove(text + from, text + to, wcslen(text + to) + 1);
    editor_replace(editor, text, from);
    return CC_REFRESH;
}

/* --- ends ----------------------------------------------------------------------------------------- */

/* Are there more keys already? Then this is a paste by a terminal that does not say so, and has its own indentation. */
static bool keys_wait(void)
{
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&ready, 1, 0) > 0;
}

/* Ctrl-C came while the kernel was asked: it is for the editor, which drops the cell. */
static bool signal_waits(void)
{
    struct pollfd ready = {.fd = signals_descriptor(), .events = POLLIN};
    return poll(&ready, 1, 0) > 0;
}

static void new_line(struct editor *editor, const wchar_t *indent)
{
    editor_insert(editor, L"\n");
    if (*indent && !keys_wait())
        editor_insert(editor, indent);
}

/* The indentation of the line that the cursor is in. */
static wchar_t *indent_of(const wchar_t *text, size_t cursor)
{
    size_t start = editor_line_start(text, cursor), end = start;
    while (end < cursor && (text[end] == L' ' || text[end] == L'\t'))
        end++;
    wchar_t *indent = wide_piece(text + start, end - start);
    husk_assert(indent);
    return indent;
}

static unsigned char key_new_line(EditLine *line, int key)
{
    EDITOR_WITH_TEXT;
    _cleanup_free_ wchar_t *indent = indent_of(text, cursor);
    new_line(editor, indent);
    return CC_REFRESH;
}

/* If the kernel cannot be asked: a line that ends with a colon or stands below one wants more, until one is blank. */
static bool looks_unfinished(const wchar_t *text)
{
    size_t length = wcslen(text), start = editor_line_start(text, length);
    if (wcsspn(text + start, L" \t") == length - start)
        return false;
    return text[length - 1] == L':' || text[length - 1] == L'\\' ||
           (start > 0 && (text[start] == L' ' || text[start] == L'\t'));
}

static unsigned char key_enter(EditLine *line, int key)
{
    EDITOR_WITH_TEXT;
    if (wcschr(text + cursor, L'\n'))
        return key_new_line(line, key);
    size_t length = wcslen(text);
    bool own_command = *text == L':' && !wcschr(text, L'\n');
    if (own_command || !editor->hooks.completeness || wcsspn(text, L" \t\n") == length)
        return editor_finish(editor, END_CELL);
    _cleanup_free_ char *code = narrow_of(text);
    struct husk_completeness *completeness =
        code ? editor->hooks.completeness(code, editor->hooks.user) : NULL;
    bool stopped = signal_waits();
    bool more =
        completeness ? strcmp(completeness->status, "incomplete") == 0 : looks_unfinished(text);
    if (more) {
        _cleanup_free_ wchar_t *indent = wide_of(completeness ? completeness->indent : "");
        bool blank = indent && wcsspn(indent, L" \t") == wcslen(indent);
        new_line(editor, blank ? indent : L"");
    }
    husk_completeness_free(completeness);
    return more || stopped ? CC_REFRESH : editor_finish(editor, END_CELL);
}

static unsigned char key_control_d(EditLine *line, int key)
{
    EDITOR_WITH_TEXT;
    if (*text == 0)
        return editor_finish(editor, END_INPUT);
    return text[cursor] ? take_out(editor, text, cursor, cursor + 1) : CC_ERROR;
}

static unsigned char key_drop(EditLine *line, int key)
{
    EDITOR_WITH_TEXT;
    editor->searching = false;
    size_t length = wcslen(text);
    editor_replace(editor, text, length);
    editor_insert(editor, L"^C");
    editor_finish(editor, END_DROPPED);
    return CC_REFRESH;
}

static unsigned char key_repair(EditLine *line, int key)
{
    (void)line;
    (void)key;
    return CC_REFRESH;
}

static unsigned char key_restore(EditLine *line, int key)
{
    struct editor *editor = editor_of(line);
    (void)key;
    if (editor->kept)
        editor_replace(editor, editor->kept, editor->kept_cursor);
    free(TAKE_POINTER(editor->kept));
    return CC_REFRESH;
}

/* --- moving --------------------------------------------------------------------------------------- */

static unsigned char key_home(EditLine *line, int key)
{
    EDITOR_WITH_TEXT;
    return go(editor, editor_line_start(text, cursor));
}

static unsigned char key_end(EditLine *line, int key)
{
    EDITOR_WITH_TEXT;
    return go(editor, line_end(text, cursor));
}

static unsigned char step(struct editor *editor, bool older)
{
    return editor_step(editor, older) ? CC_REFRESH : CC_ERROR;
}

static unsigned char key_older(EditLine *line, int key)
{
    (void)key;
    return step(editor_of(line), true);
}

static unsigned char key_newer(EditLine *line, int key)
{
    (void)key;
    return step(editor_of(line), false);
}

static unsigned char key_up(EditLine *line, int key)
{
    EDITOR_WITH_TEXT;
    size_t start = editor_line_start(text, cursor);
    if (start == 0 || editor_browsing(editor, text, cursor))
        return step(editor, true);
    size_t above = editor_line_start(text, start - 1), place = above + (cursor - start);
    return go(editor, place < start - 1 ? place : start - 1);
}

static unsigned char key_down(EditLine *line, int key)
{
    EDITOR_WITH_TEXT;
    size_t end = line_end(text, cursor);
    if (text[end] == 0 || editor_browsing(editor, text, cursor))
        return step(editor, false);
    size_t below = end + 1, place = below + (cursor - editor_line_start(text, cursor));
    size_t last = line_end(text, below);
    return go(editor, place < last ? place : last);
}

/* --- taking out and putting in -------------------------------------------------------------------- */

/* In the blanks at a line's begin a whole step of indentation goes. */
static unsigned char key_backspace(EditLine *line, int key)
{
    EDITOR_WITH_TEXT;
    if (cursor == 0)
        return CC_ERROR;
    size_t start = editor_line_start(text, cursor), count = 1;
    bool spaces = cursor > start && wcsspn(text + start, L" ") >= cursor - start;
    if (spaces)
        count = (cursor - start - 1) % INDENT + 1;
    return take_out(editor, text, cursor - count, cursor);
}

static unsigned char kill_between(struct editor *editor, wchar_t *text, size_t from, size_t to)
{
    if (from == to)
        return CC_ERROR;
    free(editor->killed);
    editor->killed = wide_piece(text + from, to - from);
    return take_out(editor, text, from, to);
}

static unsigned char key_kill_right(EditLine *line, int key)
{
    EDITOR_WITH_TEXT;
    size_t end = line_end(text, cursor);
    return kill_between(editor, text, cursor, end > cursor || text[end] == 0 ? end : end + 1);
}

static unsigned char key_kill_left(EditLine *line, int key)
{
    EDITOR_WITH_TEXT;
    return kill_between(editor, text, editor_line_start(text, cursor), cursor);
}

static unsigned char key_kill_word(EditLine *line, int key)
{
    EDITOR_WITH_TEXT;
    size_t from = cursor;
    while (from > 0 && iswspace((wint_t)text[from - 1]))
        from--;
    while (from > 0 && !iswspace((wint_t)text[from - 1]))
        from--;
    return kill_between(editor, text, from, cursor);
}

static unsigned char key_yank(EditLine *line, int key)
{
    struct editor *editor = editor_of(line);
    (void)key;
    if (!editor->killed)
        return CC_ERROR;
    editor_insert(editor, editor->killed);
    return CC_REFRESH;
}

/* What a terminal pastes, up to its end mark: as it is, but control characters. */
static unsigned char key_paste(EditLine *line, int key)
{
    static const wchar_t mark[] = L"\033[201~";
    enum {
        MARK_LENGTH = ARRAY_LENGTH(mark) - 1
    };
    struct editor *editor = editor_of(line);
    (void)key;
    _cleanup_free_ wchar_t *text = malloc((MAX_PASTE_CHARACTERS + 1) * sizeof *text);
    wchar_t c, last[MARK_LENGTH] = {}, before = 0;
    size_t length = 0;
    while (text && wmemcmp(last, mark, MARK_LENGTH) != 0) {
        if (el_wgetc(line, &c) != 1)
            return CC_ERROR;
        wmemmove(last, last + 1, MARK_LENGTH - 1);
        last[MARK_LENGTH - 1] = c;
        /* A line break may come as one or as both, in the order that the terminal's settings make. */
        bool second = (c == L'\n' && before == L'\r') || (c == L'\r' && before == L'\n');
        before = second ? 0 : c;
        c = c == L'\r' ? L'\n' : c;
        bool wanted = c == L'\n' || c == L'\t' || c == 0x1b || (c >= L' ' && !iswcntrl((wint_t)c));
        if (wanted && !second && length < MAX_PASTE_CHARACTERS)
            text[length++] = c;
    }
    if (!text)
        return CC_ERROR;
    /* The mark is in it, if there was room; no other escape may stay. */
    size_t count = 0;
    bool whole = length < MAX_PASTE_CHARACTERS;
    for (size_t i = 0; i < length - (whole ? MARK_LENGTH : 0); i++)
        if (text[i] != 0x1b)
            text[count++] = text[i];
    while (count > 0 && text[count - 1] == L'\n')
        count--;
    text[count] = 0;
    if (count > 0)
        editor_insert(editor, text);
    return whole ? CC_REFRESH : CC_REFRESH_BEEP;
}

/* --- which keys ----------------------------------------------------------------------------------- */

static const struct {
    const wchar_t *name;
    unsigned char (*function)(EditLine *line, int key);
    const wchar_t *keys[8];
} functions[] = {
    {L"husk-enter", key_enter, {L"^M", L"^J"}},
    {L"husk-new-line", key_new_line, {L"\\e^M", L"\\e^J"}},
    {L"husk-tab", editor_complete, {L"^I"}},
    {L"husk-backspace", key_backspace, {L"^H", L"^?"}},
    {L"husk-control-d", key_control_d, {L"^D"}},
    {L"husk-up", key_up, {L"\\e[A", L"\\eOA"}},
    {L"husk-down", key_down, {L"\\e[B", L"\\eOB"}},
    {L"husk-older", key_older, {L"^P", L"\\e[5~"}},
    {L"husk-newer", key_newer, {L"^N", L"\\e[6~"}},
    {L"husk-home", key_home, {L"^A", L"\\e[H", L"\\eOH", L"\\e[1~", L"\\e[7~"}},
    {L"husk-end", key_end, {L"^E", L"\\e[F", L"\\eOF", L"\\e[4~", L"\\e[8~"}},
    {L"husk-kill-right", key_kill_right, {L"^K"}},
    {L"husk-kill-left", key_kill_left, {L"^U"}},
    {L"husk-kill-word", key_kill_word, {L"^W"}},
    {L"husk-yank", key_yank, {L"^Y"}},
    {L"husk-paste", key_paste, {L"\\e[200~"}},
    {L"husk-search", editor_search_begin, {L"^R"}},
    {L"husk-search-key", editor_search_key, {L"\\000"}},
    {L"husk-repair", key_repair, {L"\\034"}},
    {L"husk-restore", key_restore, {L"\\036"}},
    {L"husk-drop", key_drop, {L"\\037"}},
};

/* libedit's own functions, for keys that it does not know. */
static const wchar_t *const bindings[][2] = {
    {L"\\035", L"ed-newline"},          {L"\\e[3~", L"ed-delete-next-char"},
    {L"\\e[1;5C", L"em-next-word"},     {L"\\e[1;5D", L"ed-prev-word"},
    {L"\\e[1;3C", L"em-next-word"},     {L"\\e[1;3D", L"ed-prev-word"},
    {L"\\e^?", L"ed-delete-prev-word"}, {L"\\e^H", L"ed-delete-prev-word"},
};

void editor_bind(struct editor *editor)
{
    for (size_t i = 0; i < ARRAY_LENGTH(functions); i++) {
        el_wset(editor->line, EL_ADDFN, functions[i].name, L"", functions[i].function);
        for (const wchar_t *const *key = functions[i].keys; *key; key++)
            el_wset(editor->line, EL_BIND, *key, functions[i].name, NULL);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(bindings); i++)
        el_wset(editor->line, EL_BIND, bindings[i][0], bindings[i][1], NULL);
}
