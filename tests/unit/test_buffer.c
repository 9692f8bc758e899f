#include "unit.h"

#include "base/buffer.h"

static void appending_keeps_every_byte(void **state _unused_)
{
    _cleanup_buffer_ struct buffer buffer = {0};
    for (int i = 0; i < 5000; i++) {
        char byte = (char)(i % 251);
        assert_int_equal(buffer_append(&buffer, &byte, 1), 0);
    }
    assert_int_equal(buffer.length, 5000);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(buffer.data[i], (char)(i % 251));
}

static void appending_nothing_takes_no_memory(void **state _unused_)
{
    struct buffer buffer = {0};
    assert_int_equal(buffer_append(&buffer, NULL, 0), 0);
    assert_int_equal(buffer_append_text(&buffer, ""), 0);
    assert_null(buffer.data);
    assert_int_equal(buffer.length, 0);
}

static void the_limit_is_exact_and_hard(void **state _unused_)
{
    _cleanup_buffer_ struct buffer buffer = BUFFER_LIMITED(10);
    assert_int_equal(buffer_append(&buffer, "0123456789", 10), 0);
    assert_int_equal(buffer_append(&buffer, "x", 1), -ENOSPC);
    assert_int_equal(buffer_append_text(&buffer, "x"), -ENOSPC);
    assert_int_equal(buffer_printf(&buffer, "%d", 7), -ENOSPC);
    assert_null(buffer_reserve(&buffer, 1));
    assert_int_equal(buffer.length, 10);
    assert_string_equal(buffer_text(&buffer), "0123456789");
}

static void an_append_that_fails_adds_nothing(void **state _unused_)
{
    _cleanup_buffer_ struct buffer buffer = BUFFER_LIMITED(4);
    assert_int_equal(buffer_append(&buffer, "ab", 2), 0);
    assert_int_equal(buffer_append(&buffer, "cde", 3), -ENOSPC);
    assert_string_equal(buffer_text(&buffer), "ab");
    assert_int_equal(buffer_append(&buffer, "cd", 2), 0);
    assert_string_equal(buffer_text(&buffer), "abcd");
}

static void consuming_makes_room_below_the_limit(void **state _unused_)
{
    _cleanup_buffer_ struct buffer buffer = BUFFER_LIMITED(4);
    assert_int_equal(buffer_append(&buffer, "abcd", 4), 0);
    buffer_consume(&buffer, 3);
    assert_int_equal(buffer_append(&buffer, "efg", 3), 0);
    assert_string_equal(buffer_text(&buffer), "defg");
    assert_int_equal(buffer_append(&buffer, "h", 1), -ENOSPC);
}

static void consuming_takes_from_the_front(void **state _unused_)
{
    _cleanup_buffer_ struct buffer buffer = {0};
    buffer_consume(&buffer, 3);
    assert_int_equal(buffer.length, 0);
    assert_int_equal(buffer_append(&buffer, "abcdef", 6), 0);
    buffer_consume(&buffer, 0);
    assert_string_equal(buffer_text(&buffer), "abcdef");
    buffer_consume(&buffer, 2);
    assert_string_equal(buffer_text(&buffer), "cdef");
    buffer_consume(&buffer, 4);
    assert_int_equal(buffer.length, 0);
    assert_int_equal(buffer_append(&buffer, "xy", 2), 0);
    buffer_consume(&buffer, 100);
    assert_int_equal(buffer.length, 0);
    assert_string_equal(buffer_text(&buffer), "");
}

static void printf_appends(void **state _unused_)
{
    _cleanup_buffer_ struct buffer buffer = {0};
    assert_int_equal(buffer_append_text(&buffer, "a="), 0);
    assert_int_equal(buffer_printf(&buffer, "%d, b=%s", 42, "text"), 0);
    assert_int_equal(buffer_printf(&buffer, "%600d", 1), 0);
    assert_memory_equal(buffer.data, "a=42, b=text", 12);
    assert_int_equal(buffer.length, 612);
    assert_int_equal(buffer.data[611], '1');
}

static void reserved_room_can_be_filled_to_the_last_byte(void **state _unused_)
{
    static const size_t sizes[] = {0, 1, 255, 256, 257, 511, 512, 65536};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        _cleanup_buffer_ struct buffer buffer = {0};
        assert_int_equal(buffer_append_text(&buffer, "head"), 0);
        char *room = buffer_reserve(&buffer, sizes[i]);
        assert_non_null(room);
        memset(room, 'r', sizes[i]);
        assert_int_equal(buffer.length, 4);
        buffer_grow(&buffer, sizes[i]);
        const char *text = buffer_text(&buffer);
        assert_int_equal(strlen(text), 4 + sizes[i]);
        assert_memory_equal(text, "head", 4);
        assert_int_equal(strspn(text + 4, "r"), sizes[i]);
    }
}

static void text_has_a_nul_that_does_not_count(void **state _unused_)
{
    for (size_t length = 0; length < 600; length++) {
        _cleanup_buffer_ struct buffer buffer = {0};
        for (size_t i = 0; i < length; i++)
            assert_int_equal(buffer_append(&buffer, "t", 1), 0);
        assert_int_equal(strlen(buffer_text(&buffer)), length);
        assert_int_equal(buffer.length, length);
    }
}

static void text_of_a_full_limited_buffer_still_has_its_nul(void **state _unused_)
{
    char bytes[256];
    memset(bytes, 'f', sizeof bytes);
    _cleanup_buffer_ struct buffer buffer = BUFFER_LIMITED(sizeof bytes);
    assert_int_equal(buffer_append(&buffer, bytes, sizeof bytes), 0);
    assert_int_equal(strlen(buffer_text(&buffer)), sizeof bytes);
}

static void taking_leaves_an_empty_buffer_with_its_limit(void **state _unused_)
{
    _cleanup_buffer_ struct buffer buffer = BUFFER_LIMITED(5);
    assert_int_equal(buffer_append_text(&buffer, "first"), 0);
    _cleanup_free_ char *first = buffer_take(&buffer);
    assert_string_equal(first, "first");
    assert_null(buffer.data);
    assert_int_equal(buffer.length, 0);
    assert_int_equal(buffer_append_text(&buffer, "second"), -ENOSPC);
    assert_int_equal(buffer_append_text(&buffer, "2nd"), 0);
    _cleanup_free_ char *second = buffer_take(&buffer);
    assert_string_equal(second, "2nd");
    assert_string_equal(first, "first");
    _cleanup_free_ char *nothing = buffer_take(&buffer);
    assert_string_equal(nothing, "");
}

static void clear_keeps_the_memory_and_free_gives_it_back(void **state _unused_)
{
    struct buffer buffer = BUFFER_LIMITED(1000);
    assert_int_equal(buffer_append_text(&buffer, "content"), 0);
    const char *data = buffer.data;
    buffer_clear(&buffer);
    assert_int_equal(buffer.length, 0);
    assert_ptr_equal(buffer.data, data);
    assert_int_equal(buffer_append_text(&buffer, "new"), 0);
    assert_string_equal(buffer_text(&buffer), "new");
    buffer_free(&buffer);
    assert_null(buffer.data);
    assert_int_equal(buffer.length, 0);
    assert_int_equal(buffer.limit, 1000);
    buffer_free(&buffer);
}

static void memory_that_cannot_be_had_is_an_error(void **state _unused_)
{
    static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 2, SIZE_MAX / 2 + 1, SIZE_MAX / 4};
    _cleanup_buffer_ struct buffer buffer = {0};
    assert_int_equal(buffer_append_text(&buffer, "kept"), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        assert_null(buffer_reserve(&buffer, sizes[i]));
        assert_int_equal(buffer_append(&buffer, "x", sizes[i]), -ENOMEM);
        assert_string_equal(buffer_text(&buffer), "kept");
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(appending_keeps_every_byte),
        cmocka_unit_test(appending_nothing_takes_no_memory),
        cmocka_unit_test(the_limit_is_exact_and_hard),
        cmocka_unit_test(an_append_that_fails_adds_nothing),
        cmocka_unit_test(consuming_makes_room_below_the_limit),
        cmocka_unit_test(consuming_takes_from_the_front),
        cmocka_unit_test(printf_appends),
        cmocka_unit_test(reserved_room_can_be_filled_to_the_last_byte),
        cmocka_unit_test(text_has_a_nul_that_does_not_count),
        cmocka_unit_test(text_of_a_full_limited_buffer_still_has_its_nul),
        cmocka_unit_test(taking_leaves_an_empty_buffer_with_its_limit),
        cmocka_unit_test(clear_keeps_the_memory_and_free_gives_it_back),
        cmocka_unit_test(memory_that_cannot_be_had_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
