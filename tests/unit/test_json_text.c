#include "unit.h"

#include "shim/json_text.h"

/* In every room that is too small nothing is written, wherever the text would have to end. */
static void all_or_nothing(void **state)
{
    (void)state;
    static const char text[] =
        "{\"key\":[1,true,{\"\\u0001\\u2028\":\"value\"},\"\"],\"a key that is long\":1}";
    json_t *json = json_loads(text, 0, NULL);
    assert_non_null(json);
    for (size_t room = 3; room <= 3 + sizeof text; room++) {
        struct buffer out = BUFFER_LIMITED(room);
        assert_int_equal(buffer_append_text(&out, "abc"), 0);
        bool fits = room >= 3 + strlen(text);
        int r = json_text_append(json, JSON_COMPACT | JSON_ENSURE_ASCII, &out);
        assert_int_equal(r, fits ? 0 : -ENOSPC);
        assert_int_equal(out.length, fits ? 3 + strlen(text) : 3);
        assert_memory_equal(out.data, "abc", 3);
        if (fits)
            assert_memory_equal(out.data + 3, text, strlen(text));
        buffer_free(&out);
    }
    json_decref(json);
}

static void no_json(void **state)
{
    (void)state;
    struct buffer out = {0};
    assert_true(json_text_append(NULL, JSON_COMPACT, &out) < 0);
    assert_int_equal(out.length, 0);
    buffer_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_or_nothing), cmocka_unit_test(no_json)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
