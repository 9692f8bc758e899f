/* Bytes in pieces as UTF-8. */
#include "unit.h"

#include "base/text.h"
#include "shim/utf8_mender.h"

#define FFFD "\xef\xbf\xbd"

/* Feed `bytes` in pieces of `step` bytes; the text with its end, in a static buffer. */
static const char *mended(const char *bytes, size_t length, size_t step)
{
    static char text[4096];
    struct utf8_mender mender = {0};
    _cleanup_buffer_ struct buffer out = {0};
    for (size_t at = 0; at < length; at += step) {
        size_t taken = length - at < step ? length - at : step;
        assert_int_equal(utf8_mender_feed(&mender, bytes + at, taken, &out), 0);
        assert_true(mender.held_length < 4);
        assert_true(utf8_valid(out.data ? out.data : "", out.length));
    }
    assert_int_equal(utf8_mender_end(&mender, &out), 0);
    assert_int_equal(utf8_mender_end(&mender, &out), 0); /* once */
    (void)snprintf(text, sizeof text, "%.*s", (int)out.length, out.length ? out.data : "");
    return text;
}

/* What Python's bytes.decode(errors="replace") makes of them. */
static const struct {
    const char *bytes, *text;
} cases[] = {
    {"", ""},
    {"plain", "plain"},
    {"é€🦊", "é€🦊"},
    {"\xff", FFFD},
    {"a\x80"
     "b",
     "a" FFFD "b"},
    {"\xc3(", FFFD "("},
    {"\xc3", FFFD},
    {"\xe2\x82"
     "x",
     FFFD "x"},
    {"\xf0\x9f\xa6"
     "x",
     FFFD "x"},
    {"\xf0\x9f\xa6", FFFD},
    {"\xed\xa0\x80", FFFD FFFD FFFD}, /* a surrogate */
    {"\xc0\xaf", FFFD FFFD},          /* overlong */
    {"\xe0\x80\xaf", FFFD FFFD FFFD},
    {"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD}, /* beyond the last character */
    {"\xf0\x9f\xf0\x9f\xa6\x8a", FFFD "🦊"},
    {"\xe2\xe2\x82\xac", FFFD "€"},
};

static void whole_and_in_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        for (size_t step = 1; step <= 7; step++)
            assert_string_equal(mended(cases[i].bytes, strlen(cases[i].bytes), step),
                                cases[i].text);
    }
}

/* However it is cut, the text is the same. */
static void random_bytes_in_any_pieces(void **state)
{
    (void)state;
    static const char alphabet[] = "\x80\xbf\xc3\xe2\xf0\x9f\xa6\x8a\xed\xa0xyz\xff";
    char bytes[200];
    for (unsigned seed = 0; seed < 300; seed++) {
        srand(seed);
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = alphabet[(size_t)rand() % (sizeof alphabet - 1)];
        char *whole = strdup(mended(bytes, sizeof bytes, sizeof bytes));
        assert_true(utf8_valid(whole, strlen(whole)));
        for (size_t step = 1; step < 12; step++)
            assert_string_equal(mended(bytes, sizeof bytes, step), whole);
        free(whole);
    }
}

static void prefix(void **state)
{
    (void)state;
    assert_int_equal(utf8_prefix("", 0), 0);
    assert_int_equal(utf8_prefix("aé", 3), 3);
    assert_int_equal(utf8_prefix("aé", 2), 1);
    assert_int_equal(utf8_prefix("a\xff"
                                 "b",
                                 3),
                     1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_and_in_pieces),
        cmocka_unit_test(random_bytes_in_any_pieces),
        cmocka_unit_test(prefix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
