/* Range, If-Range, If-None-Match, If-Modified-Since. */
#include "unit.h"

#include "http/byte_range.h"

static const struct validators file = {.etag = "\"abc\"", .modified = 1795000000};
static const char date[] = "Wed, 18 Nov 2026 11:06:40 GMT";

static void expect(const char *range, uint64_t size, enum range_result wanted, uint64_t first,
                   uint64_t last)
{
    uint64_t from = 0, to = 0;
    const struct range_request request = {.range = range};
    enum range_result result = range_judge(&request, &file, size, &from, &to);
    if (result != wanted)
        fail_msg("%s of %d: %d", range, (int)size, (int)result);
    if (wanted == RANGE_PART) {
        assert_int_equal(from, first);
        assert_int_equal(to, last);
    }
}

static void test_ranges(void **state)
{
    (void)state;
    expect("bytes=0-0", 10, RANGE_PART, 0, 0);
    expect("bytes=2-4", 10, RANGE_PART, 2, 4);
    expect("bytes=2-", 10, RANGE_PART, 2, 9);
    expect("bytes=-3", 10, RANGE_PART, 7, 9);
    expect("bytes=-30", 10, RANGE_PART, 0, 9);
    expect("bytes=9-100", 10, RANGE_PART, 9, 9);
    expect("Bytes=0-18446744073709551615", 10, RANGE_PART, 0, 9);
    expect("bytes=10-", 10, RANGE_OUTSIDE, 0, 0);
    expect("bytes=10-20", 10, RANGE_OUTSIDE, 0, 0);
    expect("bytes=-0", 10, RANGE_OUTSIDE, 0, 0);
    expect("bytes=0-", 0, RANGE_OUTSIDE, 0, 0);
    expect("bytes=-5", 0, RANGE_OUTSIDE, 0, 0);
    static const char *const ignored[] = {"bytes=4-2",
                                          "bytes=",
                                          "bytes=-",
                                          "bytes=a-b",
                                          "bytes=1-b",
                                          "bytes=0-1,3-4",
                                          "lines=1-2",
                                          "bytes 1-2",
                                          "",
                                          "bytes=1",
                                          "bytes=--1",
                                          "bytes=+1-2",
                                          "bytes= 1-2",
                                          "bytes=18446744073709551616-",
                                          "bytes=99999999999999999999999999999-"};
    for (size_t i = 0; i < ARRAY_LENGTH(ignored); i++)
        expect(ignored[i], 10, RANGE_WHOLE, 0, 0);
    expect(NULL, 10, RANGE_WHOLE, 0, 0);
}

static enum range_result judge(struct range_request request)
{
    uint64_t first, last;
    return range_judge(&request, &file, 10, &first, &last);
}

static void test_conditions(void **state)
{
    (void)state;
    static const char *const same[] = {"\"abc\"", "W/\"abc\"", "\"x\", \"abc\"", "\"x\",\"abc\" ",
                                       "*"};
    for (size_t i = 0; i < ARRAY_LENGTH(same); i++)
        assert_int_equal(judge((struct range_request){.if_none_match = same[i]}), RANGE_UNCHANGED);
    static const char *const other[] = {"\"ab\"", "abc", "\"abcd\"", "", ","};
    for (size_t i = 0; i < ARRAY_LENGTH(other); i++)
        assert_int_equal(judge((struct range_request){.if_none_match = other[i]}), RANGE_WHOLE);
    assert_int_equal(judge((struct range_request){.if_modified_since = date}), RANGE_UNCHANGED);
    /* The tag counts more. */
    assert_int_equal(
        judge((struct range_request){.if_none_match = "\"x\"", .if_modified_since = date}),
        RANGE_WHOLE);
    struct range_request part = {.range = "bytes=1-2"};
    part.if_range = "\"abc\"";
    assert_int_equal(judge(part), RANGE_PART);
    part.if_range = date;
    assert_int_equal(judge(part), RANGE_PART);
    part.if_range = "\"x\"";
    assert_int_equal(judge(part), RANGE_WHOLE);
    part.if_range = "W/\"abc\"";
    assert_int_equal(judge(part), RANGE_WHOLE);
}

static void test_dates(void **state)
{
    (void)state;
    char text[HTTP_DATE_SIZE];
    http_date(file.modified, text);
    assert_string_equal(text, date);
    http_date(0, text);
    assert_string_equal(text, "Thu, 01 Jan 1970 00:00:00 GMT");
    /* Code can set what it likes. */
    static const int64_t strange[] = {INT64_MAX, INT64_MIN, -62135596801, 253402300800};
    for (size_t i = 0; i < ARRAY_LENGTH(strange); i++) {
        http_date(strange[i], text);
        assert_true(strlen(text) == 0 || strlen(text) == strlen(date));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranges),
                                       cmocka_unit_test(test_conditions),
                                       cmocka_unit_test(test_dates)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
