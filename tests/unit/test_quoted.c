#include "base/quoted.h"

#include <errno.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void assert_written(const char *text, size_t length, const char *expected)
{
    _cleanup_buffer_ struct buffer out = {0};
    assert_int_equal(quoted_append(&out, text, length), 0);
    assert_string_equal(buffer_text(&out), expected);
}

static void text_is_written(void **state)
{
    (void)state;
    assert_written("", 0, "\"\"");
    assert_written("a/b é \x7f", 8, "\"a/b é \x7f\"");
    assert_written("\"\\\n\t\r\b\f", 7, "\"\\\"\\\\\\n\\t\\r\\b\\f\"");
    assert_written("\0\x01\x1f", 3, "\"\\u0000\\u0001\\u001f\"");
}

static void a_full_buffer_is_reported(void **state)
{
    (void)state;
    _cleanup_buffer_ struct buffer out = BUFFER_LIMITED(4);
    assert_int_equal(quoted_append(&out, "abc", 3), -ENOSPC);
}

static void assert_read(const char *literal, const char *expected, size_t length)
{
    char out[64];
    assert_int_equal(quoted_decode(literal, strlen(literal), out), (ssize_t)length);
    assert_memory_equal(out, expected, length);
}

static void text_is_read(void **state)
{
    (void)state;
    assert_read("", "", 0);
    assert_read("plain é", "plain é", 8);
    assert_read("\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t", 8);
    assert_read("a\\u0000b\\u001F\\u007f", "a\0b\x1f\x7f", 5);
}

static void what_is_not_plain_is_refused(void **state)
{
    (void)state;
    static const char *const literals[] = {
        "a\"b", "a\nb", "\\",      "\\x",     "\\u",     "\\u00",          "\\u000g",
        "\\u ", "\x01", "\\u0080", "\\ud83d", "\\u00e9", "\\ud83d\\ude00",
    };
    char out[64];
    for (size_t i = 0; i < sizeof literals / sizeof literals[0]; i++)
        assert_int_equal(quoted_decode(literals[i], strlen(literals[i]), out), -EBADMSG);
    assert_int_equal(quoted_decode("\\\0", 2, out), -EBADMSG);
    assert_int_equal(quoted_decode("\\u00\0"
                                   "0",
                                   6, out),
                     -EBADMSG);
}

/* Whatever is accepted or written must mean the same to jansson. */
static void it_agrees_with_jansson(void **state)
{
    (void)state;
    static const char alphabet[] = "\"\\/bfnrtu0019afAF \n\x01x";
    srandom(1);
    for (int round = 0; round < 20000; round++) {
        char literal[16], quoted[18], out[16];
        size_t length = (size_t)random() % sizeof literal;
        for (size_t i = 0; i < length; i++)
            literal[i] = alphabet[(size_t)random() % (sizeof alphabet - 1)];
        quoted[0] = quoted[length + 1] = '"';
        memcpy(quoted + 1, literal, length);
        json_auto_t *theirs =
            json_loadb(quoted, length + 2, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        ssize_t n = quoted_decode(literal, length, out);
        if (n >= 0) {
            assert_non_null(theirs);
            assert_int_equal(n, json_string_length(theirs));
            assert_memory_equal(out, json_string_value(theirs), (size_t)n);
        }
        _cleanup_buffer_ struct buffer written = {0};
        assert_int_equal(quoted_append(&written, literal, length), 0);
        json_auto_t *back =
            json_loadb(written.data, written.length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(back);
        assert_int_equal(json_string_length(back), length);
        assert_memory_equal(json_string_value(back), literal, length);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_written),        cmocka_unit_test(a_full_buffer_is_reported),
        cmocka_unit_test(text_is_read),           cmocka_unit_test(what_is_not_plain_is_refused),
        cmocka_unit_test(it_agrees_with_jansson),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
