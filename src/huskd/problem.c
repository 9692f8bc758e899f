#include "huskd/problem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

void problem_set(struct problem *problem, enum problem_kind kind, const char *format, ...)
{
    problem->kind = kind;
    problem->why = NULL;
    problem->retry_after = 0;
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(problem->detail, sizeof problem->detail, format, arguments);
    va_end(arguments);
    /* It may quote what a client sent, or be cut inside a character; JSON takes UTF-8 only. */
    if (!utf8_valid(problem->detail, strlen(problem->detail))) {
        for (char *c = problem->detail; *c; c++)
            *c = (unsigned char)*c < 0x80 ? *c : '?';
    }
}
