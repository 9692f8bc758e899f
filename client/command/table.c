#include "command/table.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "command/defuse.h"
#include "command/terminal.h"

enum {
    GAP = 2,
    LEAST_ELASTIC = 8
};

static size_t columns_of(const struct table *table)
{
    size_t count = 0;
    while (count < TABLE_COLUMNS && table->titles[count])
        count++;
    return count;
}

void table_add(struct table *table, const char *const *cells)
{
    size_t columns = columns_of(table);
    char **grown = reallocarray(table->cells, table->count + columns, sizeof *grown);
    if (!grown)
        return;
    table->cells = grown;
    for (size_t i = 0; i < columns; i++)
        grown[table->count++] = must_copy(cells[i] ? cells[i] : "");
}

static char *safe(const char *cell)
{
    _cleanup_buffer_ struct buffer out = {};
    struct defuse defuse = {.one_line = true};
    defuse_text(&defuse, cell, strlen(cell), &out);
    defuse_end(&defuse, &out);
    char *text = buffer_take(&out);
    return text ? text : must_copy("");
}

/* `cell` in `width` columns; the last one of a row needs no blanks behind it. */
static void append_cell(struct buffer *out, const char *cell, size_t width, bool last)
{
    size_t columns = terminal_columns(cell, strlen(cell));
    if (columns <= width) {
        (void)buffer_append_text(out, cell);
    } else {
        size_t fitting = terminal_fitting(cell, width - 1);
        columns = terminal_columns(cell, fitting) + 1;
        (void)buffer_append(out, cell, fitting);
        (void)buffer_append_text(out, "…");
    }
    for (; !last && columns < width + GAP; columns++)
        (void)buffer_append(out, " ", 1);
}

/* How wide each column is: as its widest cell, but for the elastic one. */
static void choose_widths(const struct table *table, char *const *cells, size_t room,
                          size_t widths[TABLE_COLUMNS])
{
    size_t columns = columns_of(table), total = 0;
    for (size_t i = 0; i < columns; i++)
        widths[i] = strlen(table->titles[i]);
    for (size_t i = 0; i < table->count; i++) {
        size_t width = terminal_columns(cells[i], strlen(cells[i]));
        if (width > widths[i % columns])
            widths[i % columns] = width;
    }
    for (size_t i = 0; i < columns; i++)
        total += widths[i] + (i > 0 ? GAP : 0);
    size_t *elastic = &widths[table->elastic];
    if (total > room && *elastic > LEAST_ELASTIC) {
        size_t over = total - room;
        *elastic = *elastic > over + LEAST_ELASTIC ? *elastic - over : LEAST_ELASTIC;
    }
}

void table_draw(const struct table *table, size_t width, bool colours, struct buffer *out)
{
    size_t columns = columns_of(table), widths[TABLE_COLUMNS] = {};
    char **cells = must_alloc((table->count + 1) * sizeof *cells);
    for (size_t i = 0; i < table->count; i++)
        cells[i] = safe(table->cells[i]);
    choose_widths(table, cells, width, widths);
    (void)buffer_append_text(out, colours ? "\x1b[1m" : "");
    for (size_t i = 0; i < columns; i++)
        append_cell(out, table->titles[i], widths[i], i + 1 == columns);
    (void)buffer_append_text(out, colours ? "\x1b[0m\n" : "\n");
    for (size_t i = 0; i < table->count; i++) {
        bool last = (i + 1) % columns == 0;
        append_cell(out, cells[i], widths[i % columns], last);
        (void)buffer_append_text(out, last ? "\n" : "");
        free(cells[i]);
    }
    free(cells);
}

void table_print(const struct table *table, bool terminal)
{
    _cleanup_buffer_ struct buffer out = {};
    size_t columns = columns_of(table);
    if (terminal)
        table_draw(table, terminal_width(STDOUT_FILENO), terminal_has_colours(STDOUT_FILENO), &out);
    for (size_t i = 0; !terminal && i < table->count; i++) {
        _cleanup_free_ char *cell = safe(table->cells[i]);
        (void)buffer_printf(&out, "%s%s", cell, (i + 1) % columns ? "\t" : "\n");
    }
    (void)write_all(STDOUT_FILENO, out.data, out.length);
}

void table_free(struct table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->count = 0;
}
