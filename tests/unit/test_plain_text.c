#include "shim/plain_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/attributes.h"
#include "base/text.h"

static void sequences(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *plain;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"\x1b[31mred\x1b[0m", "red"},
        {"\x1b[38;5;241m1\x1b[39m", "1"},
        {"\x1b[?25lx", "x"},
        {"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"},
        {"\x1b]0;title\aafter", "after"},
        {"\x1b(Bx", "x"},
        {"\x1b"
         "cx",
         "x"},
        {"a\x1b", "a"},
        {"a\x1b[", "a"},
        {"a\x1b[31", "a"},
        {"a\x1b]never ends", "a"},
        {"\x1b\x1b[1mx", "x"},
        {"\x1b\xe6\xad\xa3", "\xe6\xad\xa3"},
        {"\x1b(\xe6\xad\xa3", "\xe6\xad\xa3"},
        {"\x1b]x\x1b\xe6\xad\xa3", "\xe6\xad\xa3"},
        {"\xe6\xad\xa3\x1b[1m\xc3\xa9", "\xe6\xad\xa3\xc3\xa9"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char out[64];
        size_t length = plain_text_strip(cases[i].text, strlen(cases[i].text), out);
        out[length] = '\0';
        assert_string_equal(out, cases[i].plain);
    }
}

/* Whatever valid text goes in, valid text comes out. */
static void stays_valid(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "\x1b", "[",  "]",  "(",  ")", "P",        "m",
        ";",    "31", "\a", "\\", "x", "\xc3\xa9", "\xf0\x9f\x8c\xbd"};
    srand(1);
    for (int round = 0; round < 20000; round++) {
        char text[128] = "", out[128];
        for (int i = 0; i < 12; i++)
            strcat(text, pieces[(size_t)rand() % ARRAY_LENGTH(pieces)]);
        size_t length = plain_text_strip(text, strlen(text), out);
        assert_true(length <= strlen(text));
        assert_true(utf8_valid(out, length));
        assert_null(memchr(out, '\x1b', length));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences),
        cmocka_unit_test(stays_valid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
