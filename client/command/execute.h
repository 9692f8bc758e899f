/* Running code in a sandbox, in front of somebody: what `husk run` and `husk exec` share. */
#pragma once

#include "base/buffer.h"
#include "command/options.h"
#include "command/session.h"
#include "command/show.h"

struct execute_options {
    const char *code;   /* -c; NULL: a file or standard input */
    const char *output; /* the folder for figures; NULL: the current one */
    double timeout;
    struct variables variables;
    bool auto_install;
    struct buffer text;           /* the code, once it is loaded */
    const char *program;          /* sys.argv[0]; NULL: sys.argv stays as it is */
    const char *const *arguments; /* the rest of it; borrowed */
    size_t argument_count;
};

#define EXECUTE_OPTIONS(options)                                                                   \
    {"code", 'c', OPTION_TEXT, &(options)->code},                                                  \
        {"output", 'o', OPTION_TEXT, &(options)->output},                                          \
        {"timeout", 't', OPTION_SECONDS, &(options)->timeout},                                     \
    {                                                                                              \
        "env", 'e', OPTION_VARIABLES, &(options)->variables                                        \
    }

#define EXECUTE_OPTIONS_HELP                                                                       \
    "  -c, --code CODE      the code itself\n"                                                     \
    "  -o, --output FOLDER  where figures are saved (the current one)\n"                           \
    "  -t, --timeout TIME   how long it may run (what the service allows by default: 60 s)\n"      \
    "  -e, --env NAME=VALUE a variable of its environment; NAME alone: as it is here\n"

/* The code of -c, or of the file that `words` begins with ("-", or none: standard input); what follows becomes sys.argv. 0, or an exit
 * status; that was said. */
int execute_load(struct execute_options *options, const char *const *words, size_t count);
void execute_free(struct execute_options *options);

/* Run it and show what happens. The exit status. `show` may be asked afterwards. */
int execute_and_show(struct session *session, const char *sandbox,
                     const struct execute_options *options, struct show *show);
