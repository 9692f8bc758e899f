/* What the command says to people, on standard error: "husk: …". Text of sandboxes may be in it, so that it is defused for a terminal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/attributes.h"

/* For --json: what went wrong is an object of JSON. For the whole program. */
void say_as_json(bool json);
bool says_json(void);

/* One line. */
void say(const char *format, ...) _printf_(1, 2);
/* To a descriptor: defused if it is a terminal, else as it is. 0 or -errno (-EPIPE: nobody reads). */
int say_text(int fd, const char *text, size_t length);
