/* The terminal while a cell runs: what is typed is not shown, and waits for the next prompt; and what code asks for with input(). */
#pragma once

#include <stdbool.h>

/* Not shown from now on; Ctrl-C still is a signal. Nothing happens if standard input is no terminal. */
void terminal_hush(void);
/* As it was. */
void terminal_unhush(void);

/* A line that is typed, for free(); shown, unless it is a password. NULL: Ctrl-D (then *stopped is false), or `stop` became readable. The terminal is
 * hushed before and after. */
char *terminal_ask(bool password, int stop, bool *stopped);
