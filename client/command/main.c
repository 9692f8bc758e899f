/* `husk`: what is said before the verb, then the verb. */
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/text.h"
#include "command/exit_status.h"
#include "command/help.h"
#include "command/say.h"
#include "command/verb.h"
#include "husk.h"

/* A value that follows, or stands behind "=". NULL: this is another option, or nothing follows. */
static const char *value_of(const char *name, int argc, char **argv, int *at)
{
    size_t length = strlen(name);
    const char *word = argv[*at];
    if (!starts_with(word, name) || (word[length] && word[length] != '='))
        return NULL;
    if (word[length] == '=')
        return word + length + 1;
    return *at + 1 < argc ? argv[++*at] : NULL;
}

static int print_version(void)
{
    return printf("husk %s\n", husk_version()) < 0 ? EXIT_LOCAL : EXIT_GOOD;
}

/* One option before the verb: -1 if all is well, or the exit status. */
static int read_option(struct invocation *invocation, int argc, char **argv, int *at)
{
    const char *word = argv[*at], *value;
    if (!strcmp(word, "--json"))
        invocation->json = true;
    else if (!strcmp(word, "--quiet") || !strcmp(word, "-q"))
        invocation->quiet = true;
    else if (!strcmp(word, "--help") || !strcmp(word, "-h"))
        return help_of_all();
    else if (!strcmp(word, "--version"))
        return print_version();
    else if ((value = value_of("--url", argc, argv, at)))
        invocation->url = value;
    else if ((value = value_of("--api-key", argc, argv, at)))
        invocation->api_key = value;
    else {
        say("'%s' makes no sense here. See `husk --help`.", word);
        return EXIT_USAGE;
    }
    return -1;
}

static void use_utf8(void)
{
    (void)setlocale(LC_ALL, "");
    (void)setlocale(LC_NUMERIC, "C");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        (void)setlocale(LC_CTYPE, "C.UTF-8");
}

int main(int argc, char **argv)
{
    struct invocation invocation = {};
    int at = 1;
    use_utf8();
    for (; at < argc && argv[at][0] == '-'; at++) {
        int status = read_option(&invocation, argc, argv, &at);
        if (status >= 0)
            return status;
    }
    say_as_json(invocation.json);
    invocation.terminal = isatty(STDOUT_FILENO) && !invocation.json;
    if (at == argc)
        return help_of_all();
    if (!strcmp(argv[at], "help"))
        return at + 1 < argc ? help_of_verb(argv[at + 1]) : help_of_all();
    const struct verb *verb = help_find_verb(argv[at]);
    if (!verb)
        return help_unknown_verb(argv[at]);
    if (at + 1 < argc && (!strcmp(argv[at + 1], "--help") || !strcmp(argv[at + 1], "-h")))
        return help_of_verb(verb->name);
    return verb->run(&invocation, argc - at, argv + at);
}
