/* The terminal, if there is one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* How many columns it has; 80 if that cannot be known. */
unsigned terminal_width(int fd);
/* May colours and cursor movements be written there? A terminal, TERM is not "dumb". NO_COLOR forbids colours. */
bool terminal_can_move(int fd);
bool terminal_has_colours(int fd);

/* How many columns a text in UTF-8 takes. `length` bytes, or up to its NUL. */
size_t terminal_columns(const char *text, size_t length);
/* How many bytes of it fit into so many columns. */
size_t terminal_fitting(const char *text, size_t columns);

/* A line of standard input without its end, byte for byte: what follows it is for whoever reads next. NULL: the end of input, or `stop` (-1: none)
 * became readable. The caller frees it. */
char *terminal_read_until(int stop, bool *stopped);
/* A line of standard input without its end; without echo if it is a password and standard input is a terminal. NULL: the end of input, or a signal
 * came. The caller frees it. */
char *terminal_read_line(bool password);
