#include "command/options.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "command/exit_status.h"
#include "command/help.h"
#include "command/nearest.h"
#include "command/say.h"

enum {
    MAX_OPTIONS = 48
};

static void *grown(void *items, size_t count, size_t size)
{
    void *more = reallocarray(items, count, size);
    if (!more)
        abort();
    return more;
}

void words_add(struct words *words, const char *word)
{
    words->items = grown(words->items, words->count + 2, sizeof *words->items);
    words->items[words->count++] = word;
    words->items[words->count] = NULL;
}

void words_free(struct words *words)
{
    free(words->items);
    *words = (struct words){};
}

void variables_free(struct variables *variables)
{
    for (size_t i = 0; i < variables->count; i++) {
        free((char *)variables->items[i].name);
        free((char *)variables->items[i].value);
    }
    free(variables->items);
    *variables = (struct variables){};
}

void command_line_free(struct command_line *line)
{
    words_free(&line->words);
}

/* --- values -------------------------------------------------------------------------------------- */

/* A number and at most one letter of `units`, which multiplies it. */
static int parse_with_unit(const char *text, const char *units, const double *factors, double *ret)
{
    char number[32];
    size_t length = strlen(text);
    const char *unit = length > 0 ? strchr(units, text[length - 1]) : NULL;
    if (length == 0 || length >= sizeof number)
        return -EINVAL;
    memcpy(number, text, length + 1);
    if (unit)
        number[length - 1] = '\0';
    if (parse_double(number, 0, 1e12, ret) < 0)
        return -EINVAL;
    *ret *= unit ? factors[unit - units] : 1;
    return 0;
}

int seconds_parse(const char *text, double *ret)
{
    static const double factors[] = {1, 60, 3600, 86400};
    return parse_with_unit(text, "smhd", factors, ret);
}

int megabytes_parse(const char *text, uint64_t *ret)
{
    static const double factors[] = {1, 1, 1024, 1024};
    double value;
    int r = parse_with_unit(text, "mMgG", factors, &value);
    if (r == 0)
        *ret = (uint64_t)value;
    return r;
}

static int add_variable(struct variables *variables, const char *text)
{
    const char *equals = strchr(text, '='), *value = equals ? equals + 1 : getenv(text);
    size_t length = equals ? (size_t)(equals - text) : strlen(text);
    if (length == 0 || !value)
        return -EINVAL;
    variables->items = grown(variables->items, variables->count + 1, sizeof *variables->items);
    variables->items[variables->count++] = (struct husk_variable){
        .name = must_format("%.*s", (int)length, text), .value = must_copy(value)};
    return 0;
}

static int take_value(const struct option *option, const char *text)
{
    switch (option->kind) {
    case OPTION_FLAG:
        *(bool *)option->value = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)option->value = text;
        return 0;
    case OPTION_WORDS:
        words_add(option->value, text);
        return 0;
    case OPTION_VARIABLES:
        return add_variable(option->value, text);
    case OPTION_COUNT:
        return parse_u64(text, 0, UINT64_MAX / 2, option->value);
    case OPTION_NUMBER:
        return parse_double(text, 0, 1e12, option->value);
    case OPTION_SECONDS:
        return seconds_parse(text, option->value);
    case OPTION_MEGABYTES:
        return megabytes_parse(text, option->value);
    }
    return -EINVAL;
}

static const char *const wants[] = {
    [OPTION_TEXT] = "a text",
    [OPTION_WORDS] = "a word",
    [OPTION_VARIABLES] = "NAME=VALUE, or the NAME of a variable of the environment",
    [OPTION_COUNT] = "a number",
    [OPTION_NUMBER] = "a number",
    [OPTION_SECONDS] = "a time: 90, 1.5, 10m, 2h, 1d",
    [OPTION_MEGABYTES] = "megabytes: 512, 512M, 2G",
};

/* --- reading ------------------------------------------------------------------------------------- */

struct reader {
    struct command_line *line;
    struct option all[MAX_OPTIONS]; /* the verb's, then the common ones */
    char **argv;
    int argc, at;
    bool help;
};

static bool wrong(const struct reader *reader)
{
    say("See `husk %s --help`.", reader->argv[0]);
    reader->line->status = EXIT_USAGE;
    return false;
}

static bool take(struct reader *reader, const struct option *option, const char *shown,
                 const char *value)
{
    if (option->kind == OPTION_FLAG && value) {
        say("%s takes no value.", shown);
        return wrong(reader);
    }
    if (option->kind != OPTION_FLAG && !value) {
        if (++reader->at >= reader->argc) {
            say("%s wants %s.", shown, wants[option->kind]);
            return wrong(reader);
        }
        value = reader->argv[reader->at];
    }
    if (take_value(option, value) < 0) {
        say("%s wants %s, not '%s'.", shown, wants[option->kind], value);
        return wrong(reader);
    }
    return true;
}

static bool read_long(struct reader *reader, const char *word)
{
    const char *names[MAX_OPTIONS + 1] = {}, *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word), count = 0;
    for (const struct option *option = reader->all; option->name; option++) {
        names[count++] = option->name;
        if (strlen(option->name) == length && !strncmp(option->name, word, length)) {
            _cleanup_free_ char *shown = must_format("--%s", option->name);
            return take(reader, option, shown, equals ? equals + 1 : NULL);
        }
    }
    _cleanup_free_ char *said = must_format("%.*s", (int)length, word);
    const char *near = nearest_word(said, names);
    if (near)
        say("There is no option --%s; did you mean --%s?", said, near);
    else
        say("There is no option --%s.", said);
    return wrong(reader);
}

/* -q, -qn, -oFILE, -o FILE */
static bool read_short(struct reader *reader, const char *letters)
{
    for (; *letters; letters++) {
        char shown[] = {'-', *letters, '\0'};
        const struct option *option = reader->all;
        while (option->name && option->letter != *letters)
            option++;
        if (!option->name) {
            say("There is no option %s.", shown);
            return wrong(reader);
        }
        bool flag = option->kind == OPTION_FLAG;
        if (!take(reader, option, shown, !flag && letters[1] ? letters + 1 : NULL))
            return false;
        if (!flag)
            return true;
    }
    return true;
}

static void collect(struct reader *reader)
{
    struct invocation *known = &reader->line->invocation;
    const struct option common[] = {
        {"json", '\0', OPTION_FLAG, &known->json}, {"quiet", 'q', OPTION_FLAG, &known->quiet},
        {"url", '\0', OPTION_TEXT, &known->url},   {"api-key", '\0', OPTION_TEXT, &known->api_key},
        {"help", 'h', OPTION_FLAG, &reader->help},
    };
    size_t count = 0;
    for (const struct option *option = reader->line->options; option && option->name; option++)
        reader->all[count++] = *option;
    for (size_t i = 0; i < ARRAY_LENGTH(common); i++)
        reader->all[count++] = common[i];
}

static bool read_words(struct reader *reader)
{
    struct command_line *line = reader->line;
    bool only_words = false;
    for (reader->at = 1; reader->at < reader->argc; reader->at++) {
        const char *word = reader->argv[reader->at];
        if (line->free_after && line->words.count >= line->free_after)
            only_words = true;
        if (only_words || word[0] != '-' || !word[1])
            words_add(&line->words, word);
        else if (!strcmp(word, "--"))
            only_words = true;
        else if (!(word[1] == '-' ? read_long(reader, word + 2) : read_short(reader, word + 1)))
            return false;
    }
    return true;
}

bool command_line_read(struct command_line *line, const struct invocation *invocation, int argc,
                       char **argv)
{
    struct reader reader = {.line = line, .argv = argv, .argc = argc};
    line->invocation = *invocation;
    collect(&reader);
    if (!read_words(&reader))
        return false;
    say_as_json(line->invocation.json);
    line->invocation.terminal = isatty(STDOUT_FILENO) && !line->invocation.json;
    if (reader.help) {
        line->status = help_of_verb(argv[0]);
        return false;
    }
    if (line->words.count < line->least) {
        say("Something is missing behind `husk %s`.", argv[0]);
        return wrong(&reader);
    }
    if (line->words.count > line->most) {
        say("'%s' is too much for `husk %s`.", line->words.items[line->most], argv[0]);
        return wrong(&reader);
    }
    return true;
}
