/* Tab: indentation, or what the kernel's completer knows. */
#include <stdlib.h>
#include <unistd.h>
#include <wctype.h>

#include "base/attributes.h"
#include "base/failure.h"
#include "command/repl_editor_inside.h"
#include "command/terminal.h"
#include "command/wide.h"
#include "husk.h"
#include "husk/limits.h"

static bool only_blanks(const wchar_t *text, size_t from, size_t to)
{
    while (from < to && (text[from] == L' ' || text[from] == L'\t'))
        from++;
    return from == to;
}

/* Of a kernel, which may say anything: only what can be shown and typed. */
static wchar_t *match_at(const struct husk_completion *completion, size_t index)
{
    wchar_t *match = wide_of(completion->matches[index]);
    for (const wchar_t *c = match; c && *c; c++)
        if (!iswprint((wint_t)*c) || (*c >= MARGIN_FIRST && *c <= MARGIN_LAST)) {
            free(match);
            return NULL;
        }
    return match;
}

/* What all matches begin with, for free(). NULL: there are none. */
static wchar_t *common_begin(const struct husk_completion *completion)
{
    wchar_t *common = NULL;
    for (size_t i = 0; i < completion->match_count && i < MAX_COMPLETIONS; i++) {
        wchar_t *match = match_at(completion, i);
        if (!match)
            continue;
        if (!common) {
            common = match;
            continue;
        }
        size_t same = 0;
        while (common[same] && common[same] == match[same])
            same++;
        common[same] = 0;
        free(match);
    }
    return common;
}

static unsigned char insert_match(struct editor *editor, const wchar_t *text, size_t cursor,
                                  const struct husk_completion *completion)
{
    size_t length = wcslen(text), start = completion->start, end = completion->end;
    _cleanup_free_ wchar_t *common = common_begin(completion);
    if (!common || start > end || end > length || start > cursor)
        return CC_ERROR;
    size_t added = wcslen(common);
    if (added == end - start && wmemcmp(common, text + start, added) == 0)
        return CC_NORM;
    _cleanup_free_ wchar_t *whole = malloc((length + added + 1) * sizeof *whole);
    husk_assert(whole);
    wmemcpy(whole, text, start);
    wmemcpy(whole + start, common, added);
    wmemcpy(whole + start + added, text + end, length - end + 1);
    editor_replace(editor, whole, start + added);
    return CC_REFRESH;
}

unsigned char editor_complete(EditLine *line, int key)
{
    EDITOR_WITH_TEXT;
    size_t start = editor_line_start(text, cursor);
    if (only_blanks(text, start, cursor)) {
        for (size_t i = (cursor - start) % INDENT; i < INDENT; i++)
            editor_insert(editor, L" ");
        return CC_REFRESH;
    }
    _cleanup_free_ char *code = narrow_of(text);
    struct husk_completion *completion =
        code && *text != L':' ? editor->hooks.complete(code, cursor, editor->hooks.user) : NULL;
    if (!completion)
        return CC_ERROR;
    unsigned char result = insert_match(editor, text, cursor, completion);
    if (result == CC_NORM && completion->match_count > 1) {
        husk_completion_free(editor->matches);
        editor->matches = TAKE_POINTER(completion);
        editor->kept = TAKE_POINTER(text);
        editor->kept_cursor = cursor;
        editor_finish(editor, END_LIST);
    }
    husk_completion_free(completion);
    return result;
}

/* --- the list ------------------------------------------------------------------------------------- */

/* In columns, one below the other, as ls does it. */
static void print_columns(FILE *out, wchar_t *const *matches, size_t count, size_t width)
{
    size_t fit = terminal_width(STDOUT_FILENO) / (width + 2);
    size_t columns = fit ? fit : 1, rows = (count + columns - 1) / columns;
    for (size_t row = 0; row < rows; row++) {
        for (size_t i = row; i < count; i += rows) {
            _cleanup_free_ char *match = narrow_of(matches[i]);
            int padding = i + rows < count ? (int)(width + 2 - wide_columns(matches[i])) : 0;
            fprintf(out, "%s%*s", match ? match : "", padding, "");
        }
        fputc('\n', out);
    }
}

void editor_list(struct editor *editor)
{
    const struct husk_completion *completion = editor->matches;
    wchar_t *matches[MAX_SHOWN_COMPLETIONS];
    size_t count = 0, width = 1, index = 0;
    for (; index < completion->match_count && count < MAX_SHOWN_COMPLETIONS; index++) {
        wchar_t *match = match_at(completion, index);
        if (!match)
            continue;
        size_t columns = wide_columns(match);
        width = columns > width ? columns : width;
        matches[count++] = match;
    }
    print_columns(editor->out, matches, count, width);
    if (index < completion->match_count)
        fprintf(editor->out, "… and %zu more\n", completion->match_count - index);
    for (size_t i = 0; i < count; i++)
        free(matches[i]);
    editor->matches = husk_completion_free(editor->matches);
}
