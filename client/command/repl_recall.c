/* The history under the keys: steps to entries that begin with what was typed, and the search as one types. */
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#include "base/attributes.h"
#include "command/repl_editor_inside.h"
#include "command/repl_history.h"

void editor_leave_history(struct editor *editor)
{
    free(TAKE_POINTER(editor->typed));
    free(TAKE_POINTER(editor->recalled));
}

/* Nothing was done since the last step: the next one goes on, wherever the cursor is in the cell. */
bool editor_browsing(const struct editor *editor, const wchar_t *text, size_t cursor)
{
    return editor->recalled && cursor == wcslen(text) && wcscmp(text, editor->recalled) == 0;
}

static void show(struct editor *editor, const wchar_t *entry)
{
    free(editor->recalled);
    editor->recalled = wcsdup(entry);
    editor_replace(editor, entry, wcslen(entry));
}

/* An entry is worth a stop if it begins with what was typed and is not what already stands there. */
static bool is_wanted(const struct editor *editor, const wchar_t *entry)
{
    return wcsncmp(entry, editor->typed, wcslen(editor->typed)) == 0 &&
           (!editor->recalled || wcscmp(entry, editor->recalled) != 0);
}

bool editor_step(struct editor *editor, bool older)
{
    size_t cursor, count = history_count(editor->history);
    _cleanup_free_ wchar_t *text = editor_text(editor, &cursor);
    if (!editor_browsing(editor, text, cursor)) {
        editor_leave_history(editor);
        editor->typed = wcsdup(text);
        editor->step = count;
        if (!editor->typed)
            return false;
    }
    size_t index = editor->step;
    while (older ? index > 0 : index < count) {
        index += older ? (size_t)-1 : 1;
        if (index == count) {
            _cleanup_free_ wchar_t *typed = wcsdup(editor->typed);
            show(editor, typed ? typed : L"");
            editor->step = index;
            return true;
        }
        if (is_wanted(editor, history_entry(editor->history, index))) {
            show(editor, history_entry(editor->history, index));
            editor->step = index;
            return true;
        }
    }
    return false;
}

/* --- the search ----------------------------------------------------------------------------------- */

/* From the entry before `from` on, backwards; false: there is none. */
static bool find(struct editor *editor, size_t from)
{
    for (size_t i = from; i > 0; i--) {
        const wchar_t *entry = history_entry(editor->history, i - 1);
        if (wcsstr(entry, editor->wanted)) {
            editor->step = i - 1;
            editor_replace(editor, entry, wcslen(entry));
            return true;
        }
    }
    return false;
}

unsigned char editor_search_begin(EditLine *line, int key)
{
    struct editor *editor = editor_of(line);
    size_t cursor;
    (void)key;
    editor_leave_history(editor);
    editor->typed = editor_text(editor, &cursor);
    editor->step = history_count(editor->history);
    editor->searching = true;
    editor->wanted_length = 0;
    editor->wanted[0] = 0;
    return CC_REFRESH;
}

static unsigned char finish(struct editor *editor, bool restore)
{
    editor->searching = false;
    if (restore)
        editor_replace(editor, editor->typed, wcslen(editor->typed));
    editor_leave_history(editor);
    return CC_REFRESH;
}

unsigned char editor_search_key(EditLine *line, int key)
{
    enum {
        CONTROL_G = 7,
        BACKSPACE = 8,
        CONTROL_R = 18,
        DELETE = 127
    };
    struct editor *editor = editor_of(line);
    wint_t character = editor->character;
    (void)key;
    if (!editor->searching)
        return CC_NORM;
    bool found = true;
    if (character == CONTROL_R) {
        found = find(editor, editor->step);
    } else if (character == CONTROL_G) {
        return finish(editor, true);
    } else if (character == BACKSPACE || character == DELETE) {
        if (editor->wanted_length > 0)
            editor->wanted[--editor->wanted_length] = 0;
        found = find(editor, history_count(editor->history));
    } else if (iswprint(character)) {
        if (editor->wanted_length < SEARCH_LENGTH)
            editor->wanted[editor->wanted_length++] = (wchar_t)character;
        editor->wanted[editor->wanted_length] = 0;
        size_t count = history_count(editor->history);
        found = find(editor, editor->step < count ? editor->step + 1 : count);
    } else {
        /* Any other key takes what was found, and does what it does. */
        editor->unread = character;
        return finish(editor, false);
    }
    return found ? CC_REFRESH : CC_REFRESH_BEEP;
}
