#include "library/base64.h"

#include "unit.h"

static void expect(const char *text, const char *bytes, size_t length)
{
    char out[64];
    size_t got;
    assert_true(base64_room(strlen(text)) <= sizeof out);
    assert_int_equal(base64_decode(text, strlen(text), out, &got), 0);
    assert_int_equal(got, length);
    assert_memory_equal(out, bytes, length);
}

static void test_vectors(void **state _unused_)
{
    /* RFC 4648, 10 */
    expect("", "", 0);
    expect("Zg==", "f", 1);
    expect("Zm8=", "fo", 2);
    expect("Zm9v", "foo", 3);
    expect("Zm9vYg==", "foob", 4);
    expect("Zm9vYmE=", "fooba", 5);
    expect("Zm9vYmFy", "foobar", 6);
    expect("AP+/", "\0\xff\xbf", 3);
}

static void test_as_kernels_send_it(void **state _unused_)
{
    expect("Zm9v\nYmFy\n", "foobar", 6);
    expect("Zm 9v\r\n\tYg = =", "foob", 4);
    expect("Zg", "f", 1);
    expect("Zm8", "fo", 2);
}

static void test_other_things(void **state _unused_)
{
    static const char *const wrong[] = {"Z",    "Zm9vY", "Zg=",   "Zg===",    "====",   "=",
                                        "Zg=x", "Z!==",  "Zm9v=", "Zg==Zg==", "<svg/>", "\xc3\xa9"};
    char out[64];
    size_t length;
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++)
        assert_int_equal(base64_decode(wrong[i], strlen(wrong[i]), out, &length), -EINVAL);
    assert_int_equal(base64_decode("Zm\0v", 4, out, &length), -EINVAL);
}

/* As many bytes as base64_room() says, and none more: the sanitizer would tell. */
static void test_room(void **state _unused_)
{
    for (size_t length = 0; length < 200; length++) {
        _cleanup_free_ char *text = malloc(length + 1), *out = malloc(base64_room(length));
        size_t got;
        memset(text, '/', length + 1);
        int r = base64_decode(text, length, out, &got);
        assert_int_equal(r, length % 4 == 1 ? -EINVAL : 0);
        if (r == 0)
            assert_int_equal(got, length * 3 / 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_as_kernels_send_it),
        cmocka_unit_test(test_other_things),
        cmocka_unit_test(test_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
