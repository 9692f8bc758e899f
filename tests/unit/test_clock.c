#include "unit.h"

#include <time.h>

#include "base/clock.h"

static void timestamps_are_iso_8601_in_utc(void **state _unused_)
{
    static const struct {
        int64_t seconds;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00Z"},          {-1, "1969-12-31T23:59:59Z"},
        {951782400, "2000-02-29T00:00:00Z"},  {951868799, "2000-02-29T23:59:59Z"},
        {1795071600, "2026-11-19T07:00:00Z"}, {2147483648, "2038-01-19T03:14:08Z"},
        {4107542400, "2100-03-01T00:00:00Z"}, {253402300799, "9999-12-31T23:59:59Z"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        char text[TIMESTAMP_SIZE];
        format_timestamp(cases[i].seconds, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void the_time_zone_of_the_machine_does_not_matter(void **state _unused_)
{
    char text[TIMESTAMP_SIZE];
    assert_int_equal(setenv("TZ", "CST-8", 1), 0);
    tzset();
    format_timestamp(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00Z");
    format_timestamp_micros(text);
    struct tm parts = {0};
    assert_non_null(strptime(text, "%Y-%m-%dT%H:%M:%S", &parts));
    time_t difference = timegm(&parts) - time(NULL);
    unsetenv("TZ");
    tzset();
    assert_in_range(difference + 5, 0, 10);
}

static void a_time_that_cannot_be_written_gives_an_empty_text(void **state _unused_)
{
    static const int64_t seconds[] = {INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < ARRAY_LENGTH(seconds); i++) {
        char text[TIMESTAMP_SIZE] = "old";
        format_timestamp(seconds[i], text);
        assert_string_equal(text, "");
    }
}

static void microseconds_have_six_digits(void **state _unused_)
{
    static const char shape[] = "dddd-dd-ddTdd:dd:dd.ddddddZ";
    char text[TIMESTAMP_SIZE];
    uint64_t deadline = now_ms() + 5000;
    do { /* until one began with a zero */
        assert_true(now_ms() < deadline);
        format_timestamp_micros(text);
        assert_int_equal(strlen(text), strlen(shape));
        for (size_t k = 0; shape[k]; k++) {
            if (shape[k] == 'd')
                assert_in_range(text[k], '0', '9');
            else
                assert_int_equal(text[k], shape[k]);
        }
    } while (text[20] != '0');
}

static void timestamps_of_now_are_now(void **state _unused_)
{
    char before[TIMESTAMP_SIZE], text[TIMESTAMP_SIZE], after[TIMESTAMP_SIZE];
    struct timespec clock;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &clock), 0);
    format_timestamp(clock.tv_sec, before);
    format_timestamp_micros(text);
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &clock), 0);
    format_timestamp(clock.tv_sec, after);
    size_t seconds = strlen("2026-11-18T07:00:00");
    assert_true(memcmp(text, before, seconds) >= 0);
    assert_true(memcmp(text, after, seconds) <= 0);
}

static void microseconds_move(void **state _unused_)
{
    char first[TIMESTAMP_SIZE], text[TIMESTAMP_SIZE];
    format_timestamp_micros(first);
    uint64_t deadline = now_ms() + 5000;
    do {
        format_timestamp_micros(text);
        assert_true(now_ms() < deadline);
    } while (strcmp(first, text) == 0);
    assert_true(strcmp(first, text) < 0);
}

static void the_clocks_are_the_right_ones(void **state _unused_)
{
    struct timespec before, after;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &before), 0);
    uint64_t now = now_ms();
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &after), 0);
    assert_in_range(now, (uint64_t)before.tv_sec * 1000 + (uint64_t)before.tv_nsec / 1000000,
                    (uint64_t)after.tv_sec * 1000 + (uint64_t)after.tv_nsec / 1000000);
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &before), 0);
    int64_t wall = wall_seconds();
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &after), 0);
    assert_in_range(wall, before.tv_sec, after.tv_sec);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(timestamps_are_iso_8601_in_utc),
        cmocka_unit_test(the_time_zone_of_the_machine_does_not_matter),
        cmocka_unit_test(a_time_that_cannot_be_written_gives_an_empty_text),
        cmocka_unit_test(microseconds_have_six_digits),
        cmocka_unit_test(timestamps_of_now_are_now),
        cmocka_unit_test(microseconds_move),
        cmocka_unit_test(the_clocks_are_the_right_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
