/* What the parts of the editor share: repl_editor.c has its life and reads keys, repl_keys.c is what keys do, repl_recall.c is the history under the keys.
 *
 * Keys of its own. libedit shows a change only when the function of a key says so, and ends a line only by its own function. So whoever wants either
 * lets a key be pressed that no keyboard has: editor->pressed, which is read before anything else. */
#pragma once

#include <histedit.h>
#include <stdbool.h>
#include <stdio.h>

#include "command/repl_editor.h"
#include "command/repl_margin.h"

enum editor_key {
    KEY_FINISH = 0x1d,  /* libedit's own end of line: it goes below the cell */
    KEY_REPAIR = 0x1c,  /* put right what the last key left behind, show it */
    KEY_RESTORE = 0x1e, /* the text that was kept */
    KEY_DROP = 0x1f,    /* Ctrl-C came */
    KEY_SEARCH = 0x00   /* one more character for the search */
};

enum {
    SEARCH_LENGTH = 64, /* of what is looked for */
    INDENT = 4,
};

enum editor_end {
    END_NONE, /* of the line that libedit reads */
    END_CELL,
    END_DROPPED,
    END_INPUT,
    END_GONE,
    END_LIST /* show the matches below, then go on */
};

struct editor {
    struct editor_hooks hooks;
    struct history *history;
    EditLine *line;
    FILE *out;
    bool colours;
    struct margin prompt, margin;
    wchar_t shown_prompt[MARGIN_WIDTH + SEARCH_LENGTH + 32];
    enum editor_end end;
    int pressed;   /* enum editor_key, to be read next; -1: none */
    wint_t unread; /* a key that the search did not want; WEOF: none */
    size_t before; /* where the cursor was when the last key was pressed, in the shown text */
    wchar_t *kept; /* stands there when reading begins; NULL: nothing */
    size_t kept_cursor;
    wchar_t *killed;                 /* by Ctrl-K, Ctrl-U, Ctrl-W: for Ctrl-Y */
    struct husk_completion *matches; /* to be listed */

    /* The history under the keys */
    wchar_t *typed;    /* before the first step into the history; NULL: not in it */
    wchar_t *recalled; /* what the last step gave */
    size_t step;       /* its index; the number of entries: `typed` */
    bool searching;
    wchar_t wanted[SEARCH_LENGTH + 1];
    size_t wanted_length;
    wint_t character; /* with KEY_SEARCH */
};

/* The text in libedit's hands: a copy, with margins (shown) or without (text), for free(). They abort when memory is out: a cell is
 * small. */
wchar_t *editor_shown(const struct editor *editor, size_t *cursor);
wchar_t *editor_text(const struct editor *editor, size_t *cursor);
/* Replace it all; `cursor` counts characters of the text without margins. */
void editor_replace(struct editor *editor, const wchar_t *text, size_t cursor);
/* Insert at the cursor; line breaks get their margin. */
void editor_insert(struct editor *editor, const wchar_t *text);

/* Where the line begins that this place is in. */
size_t editor_line_start(const wchar_t *text, size_t place);
/* End the line that libedit reads. */
unsigned char editor_finish(struct editor *editor, enum editor_end end);

/* The text and the cursor, as most functions of keys want them. */
#define EDITOR_WITH_TEXT                                                                           \
    struct editor *editor = editor_of(line);                                                       \
    size_t cursor;                                                                                 \
    _cleanup_free_ wchar_t *text = editor_text(editor, &cursor);                                   \
    (void)key

/* repl_keys.c: libedit's functions and what they are bound to. */
void editor_bind(struct editor *editor);

/* repl_tab.c: completion, and the list of what there is. */
unsigned char editor_complete(EditLine *line, int key);
void editor_list(struct editor *editor);

/* repl_recall.c */
bool editor_step(struct editor *editor, bool older); /* false: there is none */
bool editor_browsing(const struct editor *editor, const wchar_t *text, size_t cursor);
void editor_leave_history(struct editor *editor);
unsigned char editor_search_begin(EditLine *line, int key);
unsigned char editor_search_key(EditLine *line, int key);

struct editor *editor_of(EditLine *line);
