#include "unit.h"

#include <math.h>

#include "base/text.h"

struct sequence {
    const char *bytes;
    size_t length;
};
/* NULs inside count. */
/* Versions of clang-format disagree about this. */
/* clang-format off */
#define SEQUENCE(literal) {literal, sizeof(literal) - 1}
/* clang-format on */

static const struct sequence valid[] = {
    SEQUENCE(""),
    SEQUENCE("plain"),
    SEQUENCE("\0"),
    SEQUENCE("a\0b"),
    SEQUENCE("\x7f"),
    SEQUENCE("\xc2\x80"),         /* U+0080, the first of two bytes */
    SEQUENCE("\xdf\xbf"),         /* U+07FF */
    SEQUENCE("\xe0\xa0\x80"),     /* U+0800 */
    SEQUENCE("\xe1\x80\x80"),     /* U+1000 */
    SEQUENCE("\xec\xbf\xbf"),     /* U+CFFF */
    SEQUENCE("\xed\x9f\xbf"),     /* U+D7FF, the last before the surrogates */
    SEQUENCE("\xee\x80\x80"),     /* U+E000, the first after them */
    SEQUENCE("\xef\xbf\xbf"),     /* U+FFFF */
    SEQUENCE("\xf0\x90\x80\x80"), /* U+10000 */
    SEQUENCE("\xf1\x80\x80\x80"), /* U+40000 */
    SEQUENCE("\xf3\xbf\xbf\xbf"), /* U+FFFFF */
    SEQUENCE("\xf4\x8f\xbf\xbf"), /* U+10FFFF, the last of all */
    SEQUENCE("gr\xc3\xbc\xc3\x9f \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x8c\xbe!"),
};

static const struct sequence invalid[] = {
    SEQUENCE("\x80"),                     /* a continuation alone */
    SEQUENCE("\xbf"),                     /* the last of them */
    SEQUENCE("a\x80"),                    /* … behind a letter */
    SEQUENCE("\xc2\x80\x80"),             /* … behind a whole character */
    SEQUENCE("\xc0\x80"),                 /* overlong NUL */
    SEQUENCE("\xc0\xaf"),                 /* overlong '/' in two, */
    SEQUENCE("\xe0\x80\xaf"),             /* three */
    SEQUENCE("\xf0\x80\x80\xaf"),         /* and four bytes */
    SEQUENCE("\xc1\xbf"),                 /* overlong U+007F */
    SEQUENCE("\xe0\x9f\xbf"),             /* overlong U+07FF */
    SEQUENCE("\xf0\x8f\xbf\xbf"),         /* overlong U+FFFF */
    SEQUENCE("\xed\xa0\x80"),             /* the first surrogate, */
    SEQUENCE("\xed\xaf\xbf"),             /* the last high, */
    SEQUENCE("\xed\xb0\x80"),             /* the first low, */
    SEQUENCE("\xed\xbf\xbf"),             /* the last */
    SEQUENCE("\xed\xa0\xbd\xed\xb8\x80"), /* a pair of them */
    SEQUENCE("\xf4\x90\x80\x80"),         /* U+110000 */
    SEQUENCE("\xf5\x80\x80\x80"),
    SEQUENCE("\xf8\x88\x80\x80\x80"),     /* five bytes */
    SEQUENCE("\xfc\x84\x80\x80\x80\x80"), /* six */
    SEQUENCE("\xfe"),
    SEQUENCE("\xff"),
    SEQUENCE("\xc2"),         /* cut off after one of two, */
    SEQUENCE("\xe0\xa0"),     /* two of three, */
    SEQUENCE("\xe4"),         /* one of three, */
    SEQUENCE("\xf0\x90\x80"), /* three of four, */
    SEQUENCE("\xf0\x90"),     /* two of four, */
    SEQUENCE("\xf4"),         /* one of four */
    SEQUENCE("\xc2 "),        /* a letter where a continuation belongs: second, */
    SEQUENCE("\xe4\xb8 "),    /* third */
    SEQUENCE("\xf0\x90\x80 "),
    SEQUENCE("\xe4\xb8\xc2\xa0"), /* the next character begins too early */
    SEQUENCE("\xc2\xc0"),
    SEQUENCE("\xc2\0"),
};

/* A copy of exactly that size, so that the sanitizer sees a read past the end. */
static bool check_copy(const char *bytes, size_t length)
{
    _cleanup_free_ char *copy = malloc(length ? length : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, length);
    return utf8_valid(copy, length);
}

static void well_formed_utf8_is_valid(void **state _unused_)
{
    for (size_t i = 0; i < ARRAY_LENGTH(valid); i++) {
        if (!check_copy(valid[i].bytes, valid[i].length))
            fail_msg("entry %zu is valid", i);
    }
}

static void malformed_utf8_is_not(void **state _unused_)
{
    for (size_t i = 0; i < ARRAY_LENGTH(invalid); i++) {
        char text[64] = "before";
        size_t length = strlen(text);
        memcpy(text + length, invalid[i].bytes, invalid[i].length);
        length += invalid[i].length;
        if (check_copy(invalid[i].bytes, invalid[i].length) || check_copy(text, length))
            fail_msg("entry %zu is invalid", i);
        memcpy(text + length, "after", 5);
        if (check_copy(text, length + 5))
            fail_msg("entry %zu is invalid in the middle", i);
    }
}

static size_t encode(uint32_t point, char out[4])
{
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, point >>= 6)
        out[i] = (char)(0x80 | (point & 0x3f));
    out[0] = (char)((0xf00u >> length) | point);
    return length;
}

static void every_code_point_is_right(void **state _unused_)
{
    for (uint32_t point = 0; point < 0x120000; point++) {
        char bytes[4];
        size_t length = encode(point, bytes);
        bool character = point < 0xd800 || (point > 0xdfff && point < 0x110000);
        if (utf8_valid(bytes, length) != character)
            fail_msg("U+%04X is %s", point, character ? "a character" : "not a character");
        if (length > 1 && utf8_valid(bytes, length - 1))
            fail_msg("U+%04X without its end is not a character", point);
    }
}

/* one, two, three and four bytes: characters begin at 0, 1, 3, 6; 10 in all */
static const char ladder[] = "a\xc3\xa9\xe4\xb8\xad\xf0\x9f\x8c\xbe";

static void cut_keeps_whole_characters_in_front(void **state _unused_)
{
    static const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10, 10};
    for (size_t limit = 0; limit < ARRAY_LENGTH(expected); limit++)
        assert_int_equal(utf8_cut(ladder, 10, limit), expected[limit]);
    assert_int_equal(utf8_cut("", 0, 0), 0);
    assert_int_equal(utf8_cut("abc", 3, SIZE_MAX), 3);
}

static void characters_are_counted(void **state _unused_)
{
    assert_int_equal(utf8_count("", 0), 0);
    assert_int_equal(utf8_count("abc", 3), 3);
    assert_int_equal(utf8_count("a\0b", 3), 3);
    assert_int_equal(utf8_count("ä€😀", 9), 3);
}

static void cuts_stay_inside_malformed_text(void **state _unused_)
{
    char bytes[32];
    memset(bytes, 0x80, sizeof bytes);
    for (size_t limit = 0; limit < sizeof bytes + 2; limit++) {
        assert_true(utf8_cut(bytes, sizeof bytes, limit) <= limit);
    }
}

static void whole_numbers(void **state _unused_)
{
    static const struct {
        const char *text;
        uint64_t minimum, maximum;
        int result;
        uint64_t value;
    } cases[] = {
        {"0", 0, 10, 0, 0},
        {"10", 0, 10, 0, 10},
        {"007", 0, 10, 0, 7},
        {"18446744073709551615", 0, UINT64_MAX, 0, UINT64_MAX},
        {"11", 0, 10, -ERANGE, 0},
        {"4", 5, 10, -ERANGE, 0},
        {"18446744073709551616", 0, UINT64_MAX, -ERANGE, 0},
        {"99999999999999999999999", 0, UINT64_MAX, -ERANGE, 0},
        {"", 0, 10, -EINVAL, 0},
        {"-1", 0, UINT64_MAX, -EINVAL, 0},
        {"+1", 0, 10, -EINVAL, 0},
        {" 1", 0, 10, -EINVAL, 0},
        {"1 ", 0, 10, -EINVAL, 0},
        {"1\n", 0, 10, -EINVAL, 0},
        {"0x1", 0, 10, -EINVAL, 0},
        {"1.0", 0, 10, -EINVAL, 0},
        {"1k", 0, 10, -EINVAL, 0},
        {"abc", 0, 10, -EINVAL, 0},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        uint64_t value = 12345;
        assert_int_equal(parse_u64(cases[i].text, cases[i].minimum, cases[i].maximum, &value),
                         cases[i].result);
        assert_int_equal(value, cases[i].result == 0 ? cases[i].value : 12345);
    }
}

static void numbers_with_a_point(void **state _unused_)
{
    static const struct {
        const char *text;
        double minimum, maximum;
        int result;
        double value;
    } cases[] = {
        {"0.5", 0, 1, 0, 0.5},     {"2", 0, 2, 0, 2},         {".25", 0, 1, 0, 0.25},
        {"3.", 0, 4, 0, 3},        {"2.1", 0, 2, -ERANGE, 0}, {"0.01", 0.1, 2, -ERANGE, 0},
        {"", 0, 1, -EINVAL, 0},    {".", 0, 1, -EINVAL, 0},   {"1.2.3", 0, 9, -EINVAL, 0},
        {"-1", -2, 2, -EINVAL, 0}, {"+1", 0, 2, -EINVAL, 0},  {" 1", 0, 2, -EINVAL, 0},
        {"1 ", 0, 2, -EINVAL, 0},  {"1e0", 0, 2, -EINVAL, 0}, {"nan", 0, 2, -EINVAL, 0},
        {"inf", 0, 2, -EINVAL, 0}, {"0x1", 0, 2, -EINVAL, 0}, {"1,5", 0, 2, -EINVAL, 0},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        double value = 12345;
        assert_int_equal(parse_double(cases[i].text, cases[i].minimum, cases[i].maximum, &value),
                         cases[i].result);
        assert_true(value == (cases[i].result == 0 ? cases[i].value : 12345));
    }
}

static void a_number_beyond_double_is_out_of_range(void **state _unused_)
{
    char digits[401];
    memset(digits, '9', sizeof digits - 1);
    digits[sizeof digits - 1] = '\0';
    double value = 1;
    assert_int_equal(parse_double(digits, 0, HUGE_VAL, &value), -ERANGE);
    assert_true(value == 1);
}

static void yes_and_no(void **state _unused_)
{
    static const struct {
        const char *text;
        int result;
        bool value;
    } cases[] = {
        {"yes", 0, true},        {"no", 0, false},      {"true", 0, true},    {"false", 0, false},
        {"on", 0, true},         {"off", 0, false},     {"1", 0, true},       {"0", 0, false},
        {"YES", 0, true},        {"False", 0, false},   {"", -EINVAL, true},  {"y", -EINVAL, true},
        {"yes ", -EINVAL, true}, {"01", -EINVAL, true}, {"2", -EINVAL, true},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        for (int before = 0; before < 2; before++) {
            bool value = before;
            assert_int_equal(parse_bool(cases[i].text, &value), cases[i].result);
            assert_int_equal(value, cases[i].result == 0 ? cases[i].value : before);
        }
    }
}

static void comparisons(void **state _unused_)
{
    assert_true(starts_with("prefix-rest", "prefix"));
    assert_true(starts_with("same", "same"));
    assert_true(starts_with("any", ""));
    assert_false(starts_with("pre", "prefix"));
    assert_false(starts_with("Prefix", "prefix"));
    assert_true(same_ignoring_case("Host", "hOST"));
    assert_false(same_ignoring_case("host", "hos"));
}

static void formatting_says_when_it_does_not_fit(void **state _unused_)
{
    char text[6];
    assert_int_equal(format_text(text, sizeof text, "%s", "12345"), 0);
    assert_string_equal(text, "12345");
    assert_int_equal(format_text(text, sizeof text, "%s", "123456"), -ENAMETOOLONG);
    assert_int_equal(strlen(text), 5);
    assert_int_equal(format_text(text, 0, "%s", ""), -ENAMETOOLONG);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(well_formed_utf8_is_valid),
        cmocka_unit_test(malformed_utf8_is_not),
        cmocka_unit_test(every_code_point_is_right),
        cmocka_unit_test(cut_keeps_whole_characters_in_front),
        cmocka_unit_test(characters_are_counted),
        cmocka_unit_test(cuts_stay_inside_malformed_text),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(numbers_with_a_point),
        cmocka_unit_test(a_number_beyond_double_is_out_of_range),
        cmocka_unit_test(yes_and_no),
        cmocka_unit_test(comparisons),
        cmocka_unit_test(formatting_says_when_it_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
