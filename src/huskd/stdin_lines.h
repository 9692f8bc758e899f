/* What a caller gives to answer input(). */
#pragma once

#include <jansson.h>

/* A string, as the lines that a file of that content has, or a list of strings: as lines without their ends (new reference). NULL: it is
 * neither, or beyond MAX_STDIN_BYTES or MAX_STDIN_LINES. */
json_t *stdin_lines(const json_t *given);
