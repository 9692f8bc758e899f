/* The terminal while a cell runs: what is typed is not shown, and waits for the next prompt; and what code asks for with input(). */
#pragma once

#include <stdbool.h>

/* Not shown from now on; Ctrl-C still is a signal. Nothing happens if standard input is no terminal. */
void terminal_hush(void);
/* As it was. */
void terminal_unhush(void);

/* What is typed from now on is an answer, and shown unless it is a password: before the question is. */
void terminal_ask_begin(bool password);
/* The line that is typed, for free(). NULL: Ctrl-D (then *stopped is false), or `stop` became readable. The terminal is hushed afterwards. */
char *terminal_ask(int stop, bool *stopped);
