#include "unit.h"

#include <fcntl.h>
#include <jansson.h>
#include <pty.h>
#include <sys/socket.h>

#include "base/buffer.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/text.h"

enum {
    MOST_LINES = 16,
    LARGEST_WRITE = 64 * 1024,
    TIME_LENGTH = 8 /* "07:00:00" in front of text lines */
};

/* Stderr becomes a datagram socket, so that each write of the log is seen by itself. */
static struct {
    int real, reading;
    int count;
    char writes[MOST_LINES][LARGEST_WRITE];
} capture;

static void begin_capture(void)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
    capture.real = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    assert_true(capture.real >= 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    capture.reading = ends[0];
    close(ends[1]);
}

/* How many writes there were. */
static int end_capture(void)
{
    assert_int_equal(dup2(capture.real, STDERR_FILENO), STDERR_FILENO);
    close(capture.real);
    assert_int_equal(set_nonblocking(capture.reading, true), 0);
    capture.count = 0;
    ssize_t n;
    while (capture.count < MOST_LINES &&
           (n = read_some(capture.reading, capture.writes[capture.count], LARGEST_WRITE - 1)) > 0)
        capture.writes[capture.count++][n] = '\0';
    close(capture.reading);
    return capture.count;
}

/* One line was written, and it ends with its only newline. */
static const char *only_line(void)
{
    assert_int_equal(end_capture(), 1);
    char *line = capture.writes[0];
    char *newline = strchr(line, '\n');
    assert_non_null(newline);
    assert_string_equal(newline, "\n");
    *newline = '\0';
    assert_true(utf8_valid(line, strlen(line)));
    return line;
}

static const char *text_of_one_value(const char *value)
{
    log_setup("huskd", LOG_INFO, LOG_FORMAT_TEXT);
    begin_capture();
    log_event(LOG_INFO, "message", "key", value, NULL);
    return only_line() + TIME_LENGTH;
}

static json_t *json_line(void)
{
    json_error_t error;
    json_t *object = json_loads(only_line(), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!object)
        fail_msg("%s in %s", error.text, capture.writes[0]);
    return object;
}

static const char *field(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    if (!text)
        fail_msg("%s is missing", key);
    return text;
}

static void text_lines_have_time_level_program_and_fields(void **state _unused_)
{
    log_setup("huskd", LOG_INFO, LOG_FORMAT_TEXT);
    begin_capture();
    log_event(LOG_INFO, "sandbox created", "sandbox", "0a-1", "name", "two words", NULL);
    const char *line = only_line();
    for (int i = 0; i < TIME_LENGTH; i++) {
        if (i == 2 || i == 5)
            assert_int_equal(line[i], ':');
        else
            assert_in_range(line[i], '0', '9');
    }
    assert_string_equal(line + TIME_LENGTH,
                        " info    huskd: sandbox created sandbox=0a-1 name=\"two words\"");
}

static void json_lines_have_time_level_program_and_fields(void **state _unused_)
{
    log_setup("keeper", LOG_INFO, LOG_FORMAT_JSON);
    begin_capture();
    log_event(LOG_WARNING, "sandbox created", "sandbox", "0a-1", "name", "two words", NULL);
    json_t *object = json_line();
    assert_string_equal(field(object, "level"), "warning");
    assert_string_equal(field(object, "program"), "keeper");
    assert_string_equal(field(object, "message"), "sandbox created");
    assert_string_equal(field(object, "sandbox"), "0a-1");
    assert_string_equal(field(object, "name"), "two words");
    assert_int_equal(strlen(field(object, "time")), strlen("2026-11-18T07:00:00.123456Z"));
    assert_int_equal(json_object_size(object), 6);
    json_decref(object);
}

static void text_values_are_quoted_where_they_must_be(void **state _unused_)
{
    static const struct {
        const char *value, *written;
    } cases[] = {
        {"plain-1.2:3/4", "plain-1.2:3/4"},
        {"", "\"\""},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"say \"hi\"", "\"say \\\"hi\\\"\""},
        {"back\\slash", "\"back\\\\slash\""},
        {"line\nbreak", "\"line\\nbreak\""},
        {"\r\n\t", "\"\\u000d\\n\\u0009\""},
        {"x\n07:00:00 error huskd: forged", "\"x\\n07:00:00 error huskd: forged\""},
        {"\x1b[31mred", "\"\\u001b[31mred\""},
        {"\x7f", "\"\\u007f\""},
        {"gr\xc3\xbc\xc3\x9f", "\"gr\xc3\xbc\xc3\x9f\""},
        {"\xc2\x9b" /* one-byte ESC [ */ "31m", "\"\\u009b31m\""},
        {"\xc2\xa0", "\"\xc2\xa0\""},
        {"\xff", "\"\\u00ff\""},
        {"\xc3\xa9\xc3", "\"\\u00c3\\u00a9\\u00c3\""},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char expected[128];
        (void)snprintf(expected, sizeof expected, " info    huskd: message key=%s",
                       cases[i].written);
        assert_string_equal(text_of_one_value(cases[i].value), expected);
    }
}

static void json_values_come_back_as_they_were(void **state _unused_)
{
    static const char *const values[] = {
        "plain",
        "",
        "say \"hi\"",
        "back\\slash\\",
        "line\nbreak\r\n",
        "\x01\x1f\x7f\x1b[31m",
        "{\"a\":1}",
        "\",\"level\":\"error",
        "gr\xc3\xbc\xc3\x9f \xe4\xb8\xad \xf0\x9f\x8c\xbe",
        "\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0",
        "\\u0041",
        "a=b c",
    };
    log_setup("huskd", LOG_INFO, LOG_FORMAT_JSON);
    for (size_t i = 0; i < ARRAY_LENGTH(values); i++) {
        begin_capture();
        log_event(LOG_INFO, values[i], "key", values[i], NULL);
        json_t *object = json_line();
        assert_string_equal(field(object, "message"), values[i]);
        assert_string_equal(field(object, "key"), values[i]);
        json_decref(object);
    }
}

static void json_of_bytes_that_are_no_text_is_still_json(void **state _unused_)
{
    static const struct {
        const char *value, *read;
    } cases[] = {
        {"\xff\xfe", "\xc3\xbf\xc3\xbe"},
        {"a\x80z", "a\xc2\x80z"},
        {"\xed\xa0\x80", "\xc3\xad\xc2\xa0\xc2\x80"},
        {"\xc0\xaf", "\xc3\x80\xc2\xaf"},
        {"\xc2\x9b\xff", "\xc3\x82\xc2\x9b\xc3\xbf"},
        {"cut \xe4\xb8", "cut \xc3\xa4\xc2\xb8"},
    };
    log_setup("huskd", LOG_INFO, LOG_FORMAT_JSON);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        begin_capture();
        log_event(LOG_INFO, cases[i].value, "key", cases[i].value, NULL);
        json_t *object = json_line();
        assert_string_equal(field(object, "message"), cases[i].read);
        assert_string_equal(field(object, "key"), cases[i].read);
        json_decref(object);
    }
}

static void text_messages_stay_on_their_line(void **state _unused_)
{
    static const struct {
        const char *message, *written;
    } cases[] = {
        {"two\nlines\r\n", "two lines  "},
        {"\x1b[2Jgone\x07\x7f", " [2Jgone  "},
        {"\xc2\x9b" /* one-byte ESC [ */ "2J", " 2J"},
        {"gr\xc3\xbc\xc3\x9f \xe4\xb8\xad", "gr\xc3\xbc\xc3\x9f \xe4\xb8\xad"},
        {"bad \xff\x9b\xc3", "bad ???"},
        {"50% \"quoted\"", "50% \"quoted\""},
    };
    log_setup("huskd", LOG_INFO, LOG_FORMAT_TEXT);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char expected[128];
        (void)snprintf(expected, sizeof expected, " error   huskd: %s", cases[i].written);
        begin_capture();
        log_line(LOG_ERROR, "%s", cases[i].message);
        assert_string_equal(only_line() + TIME_LENGTH, expected);
    }
}

static void a_field_without_value_is_left_out(void **state _unused_)
{
    log_setup("huskd", LOG_INFO, LOG_FORMAT_TEXT);
    begin_capture();
    log_event(LOG_INFO, "message", "a", "1", "absent", NULL, "b", "2", NULL);
    assert_string_equal(only_line() + TIME_LENGTH, " info    huskd: message a=1 b=2");
}

static void lower_levels_are_not_written(void **state _unused_)
{
    for (int level = LOG_DEBUG; level <= LOG_ERROR; level++) {
        log_setup("huskd", (enum log_level)level, LOG_FORMAT_TEXT);
        assert_int_equal(log_current_level(), level);
        begin_capture();
        for (int each = LOG_DEBUG; each <= LOG_ERROR; each++) {
            log_line((enum log_level)each, "line");
            log_event((enum log_level)each, "event", NULL);
        }
        assert_int_equal(end_capture(), 2 * (LOG_ERROR - level + 1));
    }
}

static void context_is_in_every_line(void **state _unused_)
{
    static const struct {
        enum log_format format;
        const char *written;
    } cases[] = {{LOG_FORMAT_TEXT, "shim: event sandbox=\"a b\" key=v"},
                 {LOG_FORMAT_JSON, "\"event\",\"sandbox\":\"a b\",\"key\":\"v\"}"}};
    log_context("sandbox", "a b");
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        log_setup("shim", LOG_INFO, cases[i].format);
        begin_capture();
        log_event(LOG_INFO, "event", "key", "v", NULL);
        const char *line = only_line();
        assert_non_null(strstr(line, cases[i].written));
        begin_capture();
        log_line(LOG_INFO, "line %d", 1);
        assert_non_null(strstr(only_line(), "a b"));
    }
    log_context(NULL, NULL);
    begin_capture();
    log_line(LOG_INFO, "line");
    assert_null(strstr(only_line(), "a b"));
}

static void automatic_is_json_unless_on_a_terminal(void **state _unused_)
{
    begin_capture();
    log_setup("huskd", LOG_INFO, LOG_FORMAT_AUTO);
    enum log_format off_terminal = log_current_format();
    assert_int_equal(end_capture(), 0);
    int controller, terminal;
    assert_int_equal(openpty(&controller, &terminal, NULL, NULL, NULL), 0);
    int real = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    assert_int_equal(dup2(terminal, STDERR_FILENO), STDERR_FILENO);
    log_setup("huskd", LOG_INFO, LOG_FORMAT_AUTO);
    enum log_format on_terminal = log_current_format();
    assert_int_equal(dup2(real, STDERR_FILENO), STDERR_FILENO);
    close(real);
    close(controller);
    close(terminal);
    assert_int_equal(off_terminal, LOG_FORMAT_JSON);
    assert_int_equal(on_terminal, LOG_FORMAT_TEXT);
}

static void long_lines_are_one_write_and_stay_well_formed(void **state _unused_)
{
    _cleanup_buffer_ struct buffer text = {0};
    for (int i = 0; i < 5000; i++)
        assert_int_equal(buffer_append_text(&text, "\xe4\xb8\xad"), 0);
    log_setup("huskd", LOG_INFO, LOG_FORMAT_JSON);
    begin_capture();
    log_line(LOG_INFO, "x%s", buffer_text(&text)); /* cut inside a character */
    json_decref(json_line());
    begin_capture();
    log_event(LOG_INFO, "event", "key", buffer_text(&text), NULL);
    json_t *object = json_line();
    assert_string_equal(field(object, "key"), buffer_text(&text));
    json_decref(object);
    log_setup("huskd", LOG_INFO, LOG_FORMAT_TEXT);
    begin_capture();
    log_line(LOG_INFO, "x%s", buffer_text(&text));
    assert_true(strlen(only_line()) > 8000);
}

static void eight_numbers_live_at_a_time(void **state _unused_)
{
    const char *numbers[8];
    for (int i = 0; i < 8; i++)
        numbers[i] = log_number(i * 1000 - 1);
    for (int i = 0; i < 8; i++) {
        char expected[16];
        (void)snprintf(expected, sizeof expected, "%d", i * 1000 - 1);
        assert_string_equal(numbers[i], expected);
    }
    assert_string_equal(log_number(INT64_MIN), "-9223372036854775808");
    assert_string_equal(log_number(INT64_MAX), "9223372036854775807");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_lines_have_time_level_program_and_fields),
        cmocka_unit_test(json_lines_have_time_level_program_and_fields),
        cmocka_unit_test(text_values_are_quoted_where_they_must_be),
        cmocka_unit_test(json_values_come_back_as_they_were),
        cmocka_unit_test(json_of_bytes_that_are_no_text_is_still_json),
        cmocka_unit_test(text_messages_stay_on_their_line),
        cmocka_unit_test(a_field_without_value_is_left_out),
        cmocka_unit_test(lower_levels_are_not_written),
        cmocka_unit_test(context_is_in_every_line),
        cmocka_unit_test(automatic_is_json_unless_on_a_terminal),
        cmocka_unit_test(long_lines_are_one_write_and_stay_well_formed),
        cmocka_unit_test(eight_numbers_live_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
