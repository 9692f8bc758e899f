#include "command/table.h"

#include <locale.h>

#include "command/exit_status.h"
#include "command/options.h"
#include "unit.h"

static void add(struct table *table, const char *first, const char *second)
{
    const char *const cells[] = {first, second};
    table_add(table, cells);
}

static void check(const struct table *table, size_t width, bool colours, const char *wanted)
{
    _cleanup_buffer_ struct buffer out = {};
    table_draw(table, width, colours, &out);
    assert_string_equal(buffer_text(&out), wanted);
}

static void draws(void **state)
{
    (void)state;
    _cleanup_(table_free) struct table table = {.titles = {"SIZE", "PATH"}, .elastic = 1};
    check(&table, 80, false, "SIZE  PATH\n");
    add(&table, "1 B", "a");
    add(&table, "12.5 MB", "a-longer-name");
    check(&table, 80, false, "SIZE     PATH\n1 B      a\n12.5 MB  a-longer-name\n");
    check(&table, 80, true, "\x1b[1mSIZE     PATH\x1b[0m\n1 B      a\n12.5 MB  a-longer-name\n");
    check(&table, 20, false, "SIZE     PATH\n1 B      a\n12.5 MB  a-longer-n…\n");
    /* The elastic column is never narrower than eight. */
    check(&table, 3, false, "SIZE     PATH\n1 B      a\n12.5 MB  a-longe…\n");
}

static void draws_what_strangers_named(void **state)
{
    (void)state;
    _cleanup_(table_free) struct table table = {.titles = {"PATH", "X"}};
    add(&table, "a\nb\x1b[31m\tc", NULL);
    add(&table, "\xe6\x95\xb0\xe6\x8d\xae", "y");
    check(&table, 80, false, "PATH        X\na␊b␛[31m␉c  \n\xe6\x95\xb0\xe6\x8d\xae        y\n");
    /* A wide character is not cut in two. */
    _cleanup_(table_free) struct table wide = {.titles = {"P", "X"}};
    add(&wide, "\xe6\x95\xb0\xe6\x95\xb0\xe6\x95\xb0\xe6\x95\xb0\xe6\x95\xb0\xe6\x95\xb0", "y");
    check(&wide, 11, false, "P         X\n\xe6\x95\xb0\xe6\x95\xb0\xe6\x95\xb0…   y\n");
}

struct values {
    bool flag;
    const char *text;
    struct words words;
    struct variables variables;
    uint64_t count, megabytes;
    double seconds;
};

static bool read_line(struct values *values, struct command_line *line, const char *const *argv)
{
    const struct option options[] = {{"flag", 'f', OPTION_FLAG, &values->flag},
                                     {"text", 't', OPTION_TEXT, &values->text},
                                     {"word", 'w', OPTION_WORDS, &values->words},
                                     {"env", 'e', OPTION_VARIABLES, &values->variables},
                                     {"count", '\0', OPTION_COUNT, &values->count},
                                     {"size", '\0', OPTION_MEGABYTES, &values->megabytes},
                                     {"time", '\0', OPTION_SECONDS, &values->seconds},
                                     {}};
    int argc = 0;
    while (argv[argc])
        argc++;
    line->options = options;
    bool good = command_line_read(line, &(struct invocation){.url = "before"}, argc,
                                  (char **)(uintptr_t)argv);
    line->options = NULL;
    return good;
}

static void free_values(struct values *values)
{
    words_free(&values->words);
    variables_free(&values->variables);
}

static void reads_options(void **state)
{
    (void)state;
    _cleanup_(free_values) struct values values = {};
    _cleanup_command_line_ struct command_line line = {.least = 1, .most = ANY_NUMBER};
    const char *const argv[] = {"ls",          "-fttext", "one",     "--word=a", "-w",     "b",
                                "--env",       "A=1=2",   "--count", "12",       "--size", "2G",
                                "--time=1.5m", "--json",  "--quiet", "--url",    "else",   "-",
                                "--",          "--flag",  NULL};
    assert_true(read_line(&values, &line, argv));
    assert_true(values.flag && line.invocation.json && line.invocation.quiet);
    assert_string_equal(values.text, "text");
    assert_string_equal(line.invocation.url, "else");
    assert_int_equal(values.words.count, 2);
    assert_string_equal(values.words.items[1], "b");
    assert_string_equal(values.variables.items[0].name, "A");
    assert_string_equal(values.variables.items[0].value, "1=2");
    assert_int_equal(values.count, 12);
    assert_int_equal(values.megabytes, 2048);
    assert_true(values.seconds > 89.9 && values.seconds < 90.1);
    assert_int_equal(line.words.count, 3);
    assert_string_equal(line.words.items[1], "-");
    assert_string_equal(line.words.items[2], "--flag");
}

static void leaves_arguments_of_others_alone(void **state)
{
    (void)state;
    _cleanup_(free_values) struct values values = {};
    _cleanup_command_line_ struct command_line line = {.most = ANY_NUMBER, .free_after = 1};
    const char *const argv[] = {"run", "-f", "file.py", "--json", "-x", "--", "--flag", NULL};
    assert_true(read_line(&values, &line, argv));
    assert_true(values.flag && !line.invocation.json);
    assert_int_equal(line.words.count, 5);
    assert_string_equal(line.words.items[3], "--");
    assert_string_equal(line.invocation.url, "before");
}

static void refuses(void **state)
{
    (void)state;
    static const char *const cases[][4] = {
        {"ls", "--nonsense", NULL},
        {"ls", "-z", NULL},
        {"ls", "--flag=1", NULL},
        {"ls", "--text", NULL},
        {"ls", "-fw", NULL},
        {"ls", "--count", "-1", NULL},
        {"ls", "--time=x", NULL},
        {"ls", "--env", "=1", NULL},
        {"ls", "--size", "", NULL},
        {"ls", "a", "b", NULL},
        {"ls", NULL},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        _cleanup_(free_values) struct values values = {};
        _cleanup_command_line_ struct command_line line = {.least = 1, .most = 1};
        assert_false(read_line(&values, &line, cases[i]));
        assert_int_equal(line.status, EXIT_USAGE);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws),         cmocka_unit_test(draws_what_strangers_named),
        cmocka_unit_test(reads_options), cmocka_unit_test(leaves_arguments_of_others_alone),
        cmocka_unit_test(refuses),
    };
    (void)setlocale(LC_ALL, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
