/* The terminal while a cell runs: what is typed is not shown, and waits for the next prompt; and what code asks for with input(). */
#pragma once

#include <stdbool.h>

/* Not shown from now on; Ctrl-C still is a signal. Nothing happens if standard input is no terminal. */
void terminal_hush(void);
/* As it was. */
void terminal_unhush(void);

/* A question is about to be shown: from now on what is typed is, too, unless it is a password. */
void terminal_listen(bool password);
/* A line that is typed, for free(). NULL: Ctrl-D (then *stopped is false), or `stop` became readable. The terminal is hushed again afterwards. */
char *terminal_ask(int stop, bool *stopped);
