/* The editor of cells: libedit with a whole cell in its hands. Enter asks whether the cell is complete; if it is not, a line is added, with the indentation
 * that the kernel suggests. Tab asks for completions, arrows go through the lines of the cell and through the history.
 *
 * It owns the terminal while editor_read() runs and at no other time; then the terminal is as it found it. The user's ~/.editrc applies (`bind -v` for
 * vi's keys). One thread. Signals: see repl_signal.h; Ctrl-C drops the cell, SIGTSTP stops the program with a terminal in order,
 * SIGWINCH draws anew. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct editor;
struct husk_completeness;
struct husk_completion;
struct history;

struct editor_hooks {
    /* Both may give NULL: not known. Then a cell counts as complete, and there are no completions. The editor frees what they give. */
    struct husk_completeness *(*completeness)(const char *code, void *user);
    struct husk_completion *(*complete)(const char *code, size_t cursor, void *user);
    void *user;
};

enum editor_outcome {
    EDITOR_CELL,    /* there is one */
    EDITOR_DROPPED, /* Ctrl-C */
    EDITOR_END,     /* Ctrl-D on an empty line */
    EDITOR_GONE     /* the terminal is gone, or a signal asks the program to end */
};

/* A prompt on standard input and output. `history` must outlive it. NULL: that is no terminal, or memory is out. */
struct editor *editor_new(const struct editor_hooks *hooks, struct history *history, bool colours);
struct editor *editor_free(struct editor *editor); /* NULL ok, returns NULL */

/* One cell, without blank lines at its end, for free(). `prompt` is ASCII: "In [3]: ". */
enum editor_outcome editor_read(struct editor *editor, const char *prompt, char **ret);
/* This text stands there when the next cell is read. */
void editor_keep(struct editor *editor, const char *cell);
