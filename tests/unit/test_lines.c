#include "library/lines.h"

#include "unit.h"

struct seen {
    struct buffer text; /* the lines, each with a bar behind it */
    int stop_at;        /* the line that ends it; 0: none */
    int count;
};

static int note(char *line, size_t length, void *user)
{
    struct seen *seen = user;
    assert_int_equal(line[length], '\0');
    assert_int_equal(buffer_append(&seen->text, line, length), 0);
    assert_int_equal(buffer_append(&seen->text, "|", 1), 0);
    return ++seen->count == seen->stop_at ? 7 : 0;
}

/* However it is cut, the lines are the same. */
static void test_cut_anywhere(void **state _unused_)
{
    static const char text[] = "one\n\ntwo and a bit\nx\ny\nunfinished";
    size_t length = sizeof text - 1;
    for (size_t first = 0; first <= length; first++) {
        for (size_t second = first; second <= length; second++) {
            struct lines lines = {BUFFER_LIMITED(100)};
            struct seen seen = {0};
            assert_int_equal(lines_feed(&lines, text, first, note, &seen), 0);
            assert_int_equal(lines_feed(&lines, text + first, second - first, note, &seen), 0);
            assert_int_equal(lines_feed(&lines, text + second, length - second, note, &seen), 0);
            assert_string_equal(buffer_text(&seen.text), "one||two and a bit|x|y|");
            lines_free(&lines);
            buffer_free(&seen.text);
        }
    }
}

static void test_bytes(void **state _unused_)
{
    struct lines lines = {BUFFER_LIMITED(100)};
    struct seen seen = {0};
    assert_int_equal(lines_feed(&lines, "a\0b\n\r\n", 6, note, &seen), 0);
    assert_int_equal(seen.text.length, 6);
    assert_memory_equal(seen.text.data, "a\0b|\r|", 6);
    lines_free(&lines);
    buffer_free(&seen.text);
}

static void test_limit(void **state _unused_)
{
    struct lines lines = {BUFFER_LIMITED(4)};
    struct seen seen = {0};
    assert_int_equal(lines_feed(&lines, "1234\n12", 7, note, &seen), 0);
    assert_int_equal(lines_feed(&lines, "34", 2, note, &seen), 0);
    assert_int_equal(lines_feed(&lines, "\n", 1, note, &seen), 0);
    assert_string_equal(buffer_text(&seen.text), "1234|1234|");
    assert_int_equal(lines_feed(&lines, "12345", 5, note, &seen), -ENOSPC);
    assert_int_equal(lines_feed(&lines, "123", 3, note, &seen), 0);
    assert_int_equal(lines_feed(&lines, "45\n", 3, note, &seen), -ENOSPC);
    lines_free(&lines);
    buffer_free(&seen.text);
}

static void test_stopped(void **state _unused_)
{
    struct lines lines = {BUFFER_LIMITED(100)};
    struct seen seen = {.stop_at = 2};
    assert_int_equal(lines_feed(&lines, "1\n2\n3\n", 6, note, &seen), 7);
    assert_string_equal(buffer_text(&seen.text), "1|2|");
    lines_free(&lines);
    buffer_free(&seen.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
