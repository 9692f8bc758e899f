#include <locale.h>
#include <string.h>

#include "base/buffer.h"
#include "command/defuse.h"
#include "command/exit_status.h"
#include "command/human.h"
#include "command/nearest.h"
#include "command/options.h"
#include "command/terminal.h"
#include "husk.h"
#include "unit.h"

/* Whole, and in pieces of one byte: the same. */
static void check_defused(const char *text, size_t length, bool one_line, const char *wanted)
{
    for (size_t piece = 1; piece <= length; piece += length > 1 ? length - 1 : 1) {
        struct defuse defuse = {.one_line = one_line};
        _cleanup_buffer_ struct buffer out = {};
        for (size_t at = 0; at < length; at += piece)
            defuse_text(&defuse, text + at, length - at < piece ? length - at : piece, &out);
        defuse_end(&defuse, &out);
        assert_string_equal(buffer_text(&out), wanted);
    }
}

static void defuses(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"plain\r\n\tx\by", "plain\r\n\tx\by"},
        {"\xe6\xad\xa3 \xf0\x9f\x8c\xbd \xc3\xa9", "\xe6\xad\xa3 \xf0\x9f\x8c\xbd \xc3\xa9"},
        {"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m\x1b[0m"},
        {"\x1b[38;5;241m1", "\x1b[38;5;241m1\x1b[0m"},
        {"\x1b[38:2::1:2:3mx", "\x1b[38:2::1:2:3mx\x1b[0m"},
        {"\x1b[Kx", "\x1b[Kx\x1b[0m"},
        /* Title, clipboard, links, device control, queries, cursor, screen, character sets. */
        {"\x1b]0;title\a", "␛]0;title␇"},
        {"\x1b]52;c;cm0gLXJm\x1b\\", "␛]52;c;cm0gLXJm␛\\"},
        {"\x1bP+q\x1b\\", "␛P+q␛\\"},
        {"\x1b[6n", "␛[6n"},
        {"\x1b[2J\x1b[H\x1b[5A", "␛[2J␛[H␛[5A"},
        {"\x1b[?1049h", "␛[?1049h"},
        {"\x1b[>4;1m", "␛[>4;1m"},
        {"\x1b"
         "c\x1b(0\x0e\x0f",
         "␛c␛(0␎␏"},
        {"\x1b\x1b[31m", "␛\x1b[31m\x1b[0m"},
        {"\x1b[3\x1b[31m", "␛[3\x1b[31m\x1b[0m"},
        {"\x1b[31", "␛[31"},
        {"\x1b[", "␛["},
        {"\x1b", "␛"},
        {"\x7f\x05", "␡␅"},
        /* C1 as characters and as bytes; broken UTF-8. */
        {"\xc2\x9b"
         "31mx",
         "\xef\xbf\xbd\xef\xbf\xbd"
         "31mx"},
        {"\x9d"
         "52;x",
         "\xef\xbf\xbd"
         "52;x"},
        {"\xc3(", "\xef\xbf\xbd("},
        {"\xe6\xad", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xc2\xa0", "\xc2\xa0"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        check_defused(cases[i].text, strlen(cases[i].text), false, cases[i].wanted);
    check_defused("a\0b", 3, false, "a␀b");
    check_defused("a\nb\t\x1b[31mc\r", 11, true, "a␊b␉␛[31mc␍");
    char endless[200];
    memset(endless, '1', sizeof endless);
    memcpy(endless, "\x1b[", 2);
    struct defuse defuse = {};
    _cleanup_buffer_ struct buffer out = {};
    defuse_text(&defuse, endless, sizeof endless, &out);
    assert_int_equal(out.length, sizeof endless + 2); /* a picture is three bytes */
}

static void near(void **state)
{
    (void)state;
    static const char *const words[] = {"run", "create", "ls", "close", "exec", "extend", NULL};
    static const struct {
        const char *said, *meant;
    } cases[] = {
        {"rnu", "run"},      {"crate", "create"},   {"clsoe", "close"}, {"cl", "close"},
        {"ex", NULL},        {"zebra", NULL},       {"", NULL},         {"exce", "exec"},
        {"creat", "create"}, {"extends", "extend"}, {"l", "ls"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const char *found = nearest_word(cases[i].said, words);
        assert_int_equal(!found, !cases[i].meant);
        if (found)
            assert_string_equal(found, cases[i].meant);
    }
    char longer[100] = "";
    memset(longer, 'x', sizeof longer - 1);
    assert_null(nearest_word(longer, words));
}

static void quantities(void **state)
{
    (void)state;
    static const struct {
        uint64_t value;
        const char *bytes, *duration;
    } cases[] = {
        {0, "0 B", "0s"},
        {59, "59 B", "59s"},
        {61, "61 B", "1m01s"},
        {1023, "1023 B", "17m03s"},
        {1024, "1.0 KB", "17m04s"},
        {7200, "7.0 KB", "2h00m"},
        {90061, "88.0 KB", "1d01h"},
        {1048575, "1.0 MB", "12d03h"},
        {UINT64_C(5) << 40, "5.0 TB", "63629145d03h"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char text[HUMAN_SIZE];
        human_bytes(cases[i].value, text);
        assert_string_equal(text, cases[i].bytes);
        human_duration(cases[i].value, text);
        assert_string_equal(text, cases[i].duration);
    }
    assert_int_equal(human_time("1970-01-02T00:00:00Z"), 86400);
    assert_int_equal(human_time("tomorrow"), -1);
    assert_int_equal(human_time(""), -1);
    double seconds;
    uint64_t megabytes;
    assert_int_equal(seconds_parse("1.5h", &seconds), 0);
    assert_true(seconds > 5399.9 && seconds < 5400.1);
    assert_int_equal(seconds_parse("90", &seconds), 0);
    assert_true(seconds > 89.9 && seconds < 90.1);
    assert_int_equal(megabytes_parse("2G", &megabytes), 0);
    assert_int_equal(megabytes, 2048);
    static const char *const bad[] = {"", "h", "1x", "-1", "1hh", "nan", "inf", "1 h"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        assert_int_equal(seconds_parse(bad[i], &seconds), -EINVAL);
        assert_int_equal(megabytes_parse(bad[i], &megabytes), -EINVAL);
    }
}

static void columns(void **state)
{
    (void)state;
    assert_int_equal(terminal_columns("abc", 3), 3);
    assert_int_equal(terminal_columns("\xe6\xad\xa3x", 4), 3);
    assert_int_equal(terminal_columns("\xff", 1), 1);
    assert_int_equal(terminal_fitting("\xe6\xad\xa3x", 1), 0);
    assert_int_equal(terminal_fitting("\xe6\xad\xa3x", 2), 3);
    assert_int_equal(terminal_fitting("abc", 10), 3);
}

static void exits(void **state)
{
    (void)state;
    static const struct {
        struct husk_result result;
        int status;
    } cases[] = {
        {{.status = "ok", .command_id = ""}, 0},
        {{.status = "error", .error = "ValueError", .command_id = ""}, 1},
        {{.status = "error", .error = "SystemExit", .error_value = "3", .command_id = ""}, 3},
        {{.status = "error", .error = "SystemExit", .error_value = "-1", .command_id = ""}, 255},
        {{.status = "error", .error = "SystemExit", .error_value = "256", .command_id = ""}, 0},
        {{.status = "error", .error = "SystemExit", .error_value = "", .command_id = ""}, 0},
        {{.status = "error", .error = "SystemExit", .error_value = "None", .command_id = ""}, 0},
        {{.status = "error", .error = "SystemExit", .error_value = "True", .command_id = ""}, 1},
        {{.status = "error", .error = "SystemExit", .error_value = "no", .command_id = ""}, 1},
        {{.status = "timeout", .command_id = ""}, 124},
        {{.status = "interrupted", .command_id = ""}, 130},
        {{.status = "died", .command_id = ""}, 137},
        {{.status = "what", .command_id = ""}, 1},
        {{.status = "ok", .command_id = "x", .exit_code = 0}, 0},
        {{.status = "error", .command_id = "x", .exit_code = 127}, 127},
        {{.status = "timeout", .command_id = "x", .exit_code = 143}, 124},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_int_equal(exit_of_result(&cases[i].result), cases[i].status);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(defuses), cmocka_unit_test(near),  cmocka_unit_test(quantities),
        cmocka_unit_test(columns), cmocka_unit_test(exits),
    };
    (void)setlocale(LC_ALL, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
