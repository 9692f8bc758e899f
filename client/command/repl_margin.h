/* The margin of a cell's lines. libedit edits one text, in which a line break may stand, and draws its lines from the left edge of the
 * terminal. So that the second line of a cell begins below the first, behind "   ...: ", the text that libedit has, the *shown*
 * text, has a margin behind each line break, made of characters of its own: the ASCII characters, moved to a private place of Unicode
 * (MARGIN_FIRST…). The stream to the terminal turns them back into ASCII, in colour (margin_stream). The prompt is made of them, too.
 *
 * What a user may do to the shown text is not restricted: margin_repair(), called before each key is read, puts right what the
 * key before it left behind. All functions here are pure, but the stream. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <wchar.h>

enum {
    MARGIN_FIRST =
        0x10FE00, /* stands for NUL; of the last private plane, where no font has anything */
    MARGIN_LAST = MARGIN_FIRST + 0x7f,
    MARGIN_WIDTH = 32, /* at most */
};

struct margin {
    wchar_t text[MARGIN_WIDTH + 1];
    size_t length;
};

/* A text of at most MARGIN_WIDTH ASCII characters as a margin, or as a prompt. */
void margin_set(struct margin *margin, const char *ascii);
/* "   ...: ", as wide as the prompt of a cell. */
void margin_continue(struct margin *margin, size_t width);

/* The text without margins: the caller frees it. NULL: no memory. */
wchar_t *margin_strip(const wchar_t *shown, size_t length);
/* How many of the first `length` characters are no margin. */
size_t margin_count(const wchar_t *shown, size_t length);
/* The opposite: the place in the shown text that comes before or, at a line's begin, behind the margin. */
size_t margin_find(const wchar_t *shown, size_t length, size_t place);
/* The text with margins: the caller frees it. NULL: no memory. */
wchar_t *margin_add(const struct margin *margin, const wchar_t *text);

/* What a key did is put right: a line break whose margin was nibbled at is gone with it, a margin without its line break, too; a cursor inside a margin,
 * which is at `before` when the key was pressed, goes on in its direction. True: the text or the cursor has to change, to *ret (the
 * caller frees it; NULL: the text stays) and *cursor. */
bool margin_repair(const struct margin *margin, const wchar_t *shown, size_t before, size_t *cursor,
                   wchar_t **ret);

/* A stream to the terminal `fd` that shows margins; closing it leaves `fd` open. NULL: no memory. */
FILE *margin_stream(int fd, bool colours);
