#include "command/help.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fdio.h"
#include "command/exit_status.h"
#include "command/nearest.h"
#include "command/say.h"
#include "command/terminal.h"
#include "command/verb.h"

enum {
    MAX_VERBS = 64
};

static const char introduction[] = "husk: code in sandboxes of your own machine.\n"
                                   "\n"
                                   "Usage: husk [OPTIONS] VERB [ARGUMENTS]\n"
                                   "\n";

static const char common_options[] =
    "Options of all verbs:\n"
    "  --json           the service's answer as it is; events, one a line, while something runs\n"
    "  -q, --quiet      no progress, no hints\n"
    "  --url URL        of the service: HUSK_URL, or http://127.0.0.1:8000\n"
    "  --api-key KEY    HUSK_API_KEY (other users of this machine can see what you type here)\n"
    "  -h, --help       what a verb does\n";

static const char conclusion[] = "  --version        of this program\n"
                                 "\n"
                                 "Exit status: 0 good, 1 the code failed, 2 wrong usage, 3 the "
                                 "service said no, 4 no service, 5 a local\n"
                                 "file, 124 timeout, 130 interrupted, 137 died. `husk run`, `exec` "
                                 "and `sh` pass on that of the program.\n"
                                 "\n"
                                 "Try: husk run -c 'print(6 * 7)'\n";

static void emphasise(struct buffer *out, const char *text)
{
    bool colours = terminal_has_colours(STDOUT_FILENO);
    (void)buffer_printf(out, "%s%s%s", colours ? "\x1b[1m" : "", text, colours ? "\x1b[0m" : "");
}

const struct verb *help_find_verb(const char *name)
{
    for (const struct verb *verb = verbs; verb->name; verb++) {
        if (!strcmp(verb->name, name))
            return verb;
    }
    return NULL;
}

int help_of_all(void)
{
    _cleanup_buffer_ struct buffer out = {};
    size_t widest = 0;
    for (const struct verb *verb = verbs; verb->name; verb++)
        widest = strlen(verb->name) > widest ? strlen(verb->name) : widest;
    (void)buffer_append_text(&out, introduction);
    for (const struct verb *verb = verbs; verb->name; verb++) {
        (void)buffer_append_text(&out, "  ");
        emphasise(&out, verb->name);
        (void)buffer_printf(&out, "%*s  %s\n", (int)(widest - strlen(verb->name)), "",
                            verb->summary);
    }
    (void)buffer_printf(&out, "\n%s%s", common_options, conclusion);
    (void)write_all(STDOUT_FILENO, out.data, out.length);
    return EXIT_GOOD;
}

int help_of_verb(const char *name)
{
    const struct verb *verb = help_find_verb(name);
    if (!verb)
        return help_unknown_verb(name);
    _cleanup_buffer_ struct buffer out = {};
    (void)buffer_append_text(&out, "Usage: ");
    emphasise(&out, "husk ");
    emphasise(&out, verb->name);
    (void)buffer_printf(&out, "%s%s\n\n%s\n%s", *verb->arguments ? " " : "", verb->arguments,
                        verb->help, common_options);
    (void)write_all(STDOUT_FILENO, out.data, out.length);
    return EXIT_GOOD;
}

int help_unknown_verb(const char *name)
{
    const char *names[MAX_VERBS] = {};
    for (size_t i = 0; i + 1 < MAX_VERBS && verbs[i].name; i++)
        names[i] = verbs[i].name;
    const char *near = nearest_word(name, names);
    if (near)
        say("There is no verb '%s'; did you mean '%s'?", name, near);
    else
        say("There is no verb '%s'. `husk --help` lists them.", name);
    return EXIT_USAGE;
}
