/* The command line of a verb. Options may stand before and behind the other words, as in `husk ls --json`; each verb has a table of its own ones,
 * and the common ones (--json, --quiet, --url, --api-key, --help) are known to all of them.
 *
 *     struct command_line line = {.options = (struct option[]){{"all", 'a', OPTION_FLAG, &all}, {}}, .least = 1, .most = 1};
 *     if (!command_line_read(&line, invocation, argc, argv))
 *         return line.status;
 *
 * What it gives points into argv, but for variables. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "command/verb.h"
#include "husk.h"

enum option_kind {
    OPTION_FLAG,  /* bool */
    OPTION_TEXT,  /* const char *; said twice: the last one */
    OPTION_WORDS, /* struct words: may be said again */
    OPTION_VARIABLES, /* struct variables: NAME=VALUE, or NAME as it is in the environment; may be said again */
    OPTION_COUNT,    /* uint64_t */
    OPTION_NUMBER,   /* double */
    OPTION_SECONDS,  /* double: 90, 1.5, 10m, 2h, 1d */
    OPTION_MEGABYTES /* uint64_t: 512, 512M, 2G */
};

struct option {
    const char *name; /* NULL: the end of the table */
    char letter;      /* '\0': none */
    enum option_kind kind;
    void *value;
};

struct words {
    const char **items;
    size_t count;
};
struct variables {
    struct husk_variable *items; /* names and values are owned */
    size_t count;
};

struct command_line {
    const struct option *options;
    size_t least, most; /* words that the verb wants */
    size_t
        free_after; /* after so many words all others are words, too: arguments of somebody else's program. 0: never */
    struct invocation invocation; /* what is known with this verb's options */
    struct words words;
    int status; /* of the program, when reading has ended it */
};

#define ANY_NUMBER SIZE_MAX

#define _cleanup_words_        _cleanup_(words_free)
#define _cleanup_variables_    _cleanup_(variables_free)
#define _cleanup_command_line_ _cleanup_(command_line_free)

void words_add(struct words *words, const char *word);
void words_free(struct words *words);
void variables_free(struct variables *variables);

/* False: it was a call for help, or it makes no sense; that has been said, and line->status is what to return. */
bool command_line_read(struct command_line *line, const struct invocation *invocation, int argc,
                       char **argv);
void command_line_free(struct command_line *line);

/* "1.5h" and the like: 0 or -EINVAL. */
int seconds_parse(const char *text, double *ret);
int megabytes_parse(const char *text, uint64_t *ret);
