#include "wire/signature.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const struct part four[SIGNED_PARTS] = {
    {"what do ya ", 11}, {"want ", 5}, {"for ", 4}, {"nothing?", 8}};
/* RFC 4231, test case 2 */
static const char expected[] = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";

static struct part text_part(const char *text)
{
    return (struct part){text, strlen(text)};
}

static void known_vector(void **state)
{
    (void)state;
    struct signatures signatures;
    signatures_init(&signatures, "Jefe", 4);
    char text[SIGNATURE_TEXT_SIZE];
    for (int i = 0; i < 2; i++) { /* the keyed state must survive */
        signature_make(&signatures, four, text);
        assert_string_equal(text, expected);
    }
}

static void right_once(void **state)
{
    (void)state;
    struct signatures signatures;
    signatures_init(&signatures, "Jefe", 4);
    assert_int_equal(signature_check(&signatures, text_part(expected), four), 0);
    assert_int_equal(signature_check(&signatures, text_part(expected), four), -EALREADY);
    signatures_init(&signatures, "Jefe", 4);
    assert_int_equal(signature_check(&signatures, text_part(expected), four), 0);
}

static void wrong(void **state)
{
    (void)state;
    struct signatures signatures;
    signatures_init(&signatures, "Jefe", 4);
    char text[SIGNATURE_TEXT_SIZE];
    memcpy(text, expected, sizeof text);
    text[63] = '4';
    assert_int_equal(signature_check(&signatures, text_part(text), four), -EBADMSG);
    assert_int_equal(signature_check(&signatures, text_part(""), four), -EBADMSG);
    assert_int_equal(signature_check(&signatures, (struct part){expected, 63}, four), -EBADMSG);
    struct part other[SIGNED_PARTS];
    memcpy(other, four, sizeof other);
    other[3] = text_part("nothing!");
    assert_int_equal(signature_check(&signatures, text_part(expected), other), -EBADMSG);
    signatures_init(&signatures, "jefe", 4);
    assert_int_equal(signature_check(&signatures, text_part(expected), four), -EBADMSG);
}

/* A wrong signature must not push a right one out of the memory. */
static void memory_is_of_right_ones(void **state)
{
    (void)state;
    struct signatures signatures;
    signatures_init(&signatures, "Jefe", 4);
    assert_int_equal(signature_check(&signatures, text_part(expected), four), 0);
    char text[SIGNATURE_TEXT_SIZE];
    memset(text, 'a', sizeof text - 1);
    for (int i = 0; i < SIGNATURES_REMEMBERED * 2; i++)
        assert_int_equal(signature_check(&signatures, (struct part){text, sizeof text - 1}, four),
                         -EBADMSG);
    assert_int_equal(signature_check(&signatures, text_part(expected), four), -EALREADY);
}

static void memory_is_bounded(void **state)
{
    (void)state;
    struct signatures signatures;
    signatures_init(&signatures, "Jefe", 4);
    assert_int_equal(signature_check(&signatures, text_part(expected), four), 0);
    for (int i = 0; i < SIGNATURES_REMEMBERED; i++) {
        char number[16], text[SIGNATURE_TEXT_SIZE];
        (void)snprintf(number, sizeof number, "%d", i);
        struct part parts[SIGNED_PARTS] = {text_part(number), text_part("{}"), text_part("{}"),
                                           text_part("{}")};
        signature_make(&signatures, parts, text);
        assert_int_equal(signature_check(&signatures, text_part(text), parts), 0);
        assert_int_equal(signature_check(&signatures, text_part(text), parts), -EALREADY);
    }
    assert_int_equal(signature_check(&signatures, text_part(expected), four), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_vector),
        cmocka_unit_test(right_once),
        cmocka_unit_test(wrong),
        cmocka_unit_test(memory_is_of_right_ones),
        cmocka_unit_test(memory_is_bounded),
    };
    return sodium_init() < 0 || cmocka_run_group_tests(tests, NULL, NULL);
}
