/* A table for people, or lines for programs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

enum {
    TABLE_COLUMNS = 8
};

struct table {
    const char *titles[TABLE_COLUMNS + 1]; /* the last one is NULL; borrowed */
    size_t elastic;                        /* the column that is cut when the terminal is narrow */
    char **cells;                          /* row after row */
    size_t count;                          /* of cells */
};

/* Add a row; as many cells as there are titles. They are copied. */
void table_add(struct table *table, const char *const *cells);
/* For people: titles, columns below each other, cut to `width`, defused. */
void table_draw(const struct table *table, size_t width, bool colours, struct buffer *out);
/* To standard output. On a terminal as table_draw() does it. Else: no titles, cells with tabs between them, defused as well: a row is one line,
 * whatever names are in it. */
void table_print(const struct table *table, bool terminal);
void table_free(struct table *table); /* what is in it */
