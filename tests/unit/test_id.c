#include "unit.h"

#include "base/id.h"

static const char sample_text[] = "01234567-89ab-4def-8123-456789abcdef";
static const struct id sample = {{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0x4d, 0xef, 0x81, 0x23, 0x45,
                                  0x67, 0x89, 0xab, 0xcd, 0xef}};

static void new_ids_are_random_uuids(void **state _unused_)
{
    enum {
        COUNT = 200
    };
    struct id ids[COUNT];
    for (int i = 0; i < COUNT; i++) {
        ids[i] = id_new();
        assert_int_equal(ids[i].bytes[6] >> 4, 4);
        assert_int_equal(ids[i].bytes[8] >> 6, 2);
        assert_false(id_is_null(ids[i]));
        for (int k = 0; k < i; k++)
            assert_false(id_equal(ids[i], ids[k]));
    }
}

static void text_is_lower_case_and_comes_back(void **state _unused_)
{
    char text[ID_TEXT_SIZE];
    struct id parsed;
    id_format(sample, text);
    assert_string_equal(text, sample_text);
    assert_int_equal(id_parse(text, &parsed), 0);
    assert_memory_equal(parsed.bytes, sample.bytes, ID_BYTES);
    for (int i = 0; i < 100; i++) {
        struct id id = id_new();
        id_format(id, text);
        assert_int_equal(strlen(text), ID_TEXT_SIZE - 1);
        assert_int_equal(id_parse(text, &parsed), 0);
        assert_true(id_equal(id, parsed));
    }
}

static void upper_case_is_understood(void **state _unused_)
{
    struct id parsed;
    assert_int_equal(id_parse("01234567-89AB-4DEF-8123-456789ABCDEF", &parsed), 0);
    assert_true(id_equal(parsed, sample));
}

static void everything_else_is_refused(void **state _unused_)
{
    static const char *const cases[] = {
        "",
        "0",
        "01234567-89ab-4def-8123-456789abcde",
        "01234567-89ab-4def-8123-456789abcdef0",
        " 1234567-89ab-4def-8123-456789abcdef",
        "01234567-89ab-4def-8123-456789abcde ",
        "01234567-89ab-4def-8123-456789abcdeg",
        "01234567-89ab-4def-8123-456789abcd\n\n",
        "0x234567-89ab-4def-8123-456789abcdef",
        "+1234567-89ab-4def-8123-456789abcdef",
        "0123456789ab-4def-8123-456789abcdef00",
        "0123456-789ab-4def-8123-456789abcdef",
        "01234567_89ab_4def_8123_456789abcdef",
        "01234567-89ab-4def-81234-56789abcdef",
        "0123456789abcdef0123456789abcdef0123",
        "../../../../../../../../etc/passwd..",
        "------------------------------------",
        "{1234567-89ab-4def-8123-456789abcde}",
        "01234567-89ab-4def-8123-4567\xc3\xa9"
        "abcdef",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct id id = sample;
        assert_int_equal(id_parse(cases[i], &id), -EINVAL);
        assert_true(id_equal(id, sample));
    }
}

static void ids_differ_in_any_byte(void **state _unused_)
{
    assert_true(id_equal(sample, sample));
    for (size_t i = 0; i < ID_BYTES; i++) {
        struct id other = sample, almost_null = {0};
        other.bytes[i] ^= 1;
        almost_null.bytes[i] = 0x80;
        assert_false(id_equal(sample, other));
        assert_false(id_is_null(almost_null));
    }
    assert_true(id_is_null((struct id){0}));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_ids_are_random_uuids),
        cmocka_unit_test(text_is_lower_case_and_comes_back),
        cmocka_unit_test(upper_case_is_understood),
        cmocka_unit_test(everything_else_is_refused),
        cmocka_unit_test(ids_differ_in_any_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
