#include "unit.h"

#include "fetcher/lock_file.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static int read_text(const char *text, struct lock_file *lock)
{
    struct failure why;
    char *copy = strdup(text);
    int r = lock_file_read(copy, lock, &why);
    free(copy);
    return r;
}

static void as_uv_writes_it(void **state)
{
    (void)state;
    struct lock_file lock = {0};
    assert_int_equal(
        read_text("lock-version = \"1.0\"\ncreated-by = \"uv\"\n\n[[packages]]\nname = "
                  "\"one\"\nversion = \"1.0\"\n"
                  "index = \"https://x/simple\"\n"
                  "wheels = [{ url = \"https://x/one-1.0-py3-none-any.whl\", upload-time = "
                  "2026-01-01T00:00:00Z, size = 5, hashes = "
                  "{ sha256 = \"" HASH
                  "\" } }]\n\n[[packages]]\nname = \"two\"\nversion = \"2.0+cpu\"\n"
                  "sdist = { url = \"https://x/two-2.0.tar.gz\", hashes = { sha256 = \"" HASH
                  "\" } }\nwheels = [\n"
                  "    { url = \"https://x/two-2.0%2Bcpu-py3-none-any.whl\" },\n"
                  "    { url = \"https://x/two-2.0%2Bcpu-cp313-cp313-linux_x86_64.whl\", hashes = "
                  "{ sha256 = \"" HASH "\" } },\n"
                  "    { url = \"https://x/two-2.0%2Bcpu-cp39-abi3-linux_x86_64.whl\", hashes = { "
                  "sha256 = \"" HASH "\" } },\n]\n"
                  "\n[[packages]]\nname = \"three\"\nversion = \"3\"\nwheels = []\n",
                  &lock),
        0);
    assert_int_equal(lock.count, 3);
    assert_string_equal(lock.packages[0].name, "one");
    assert_string_equal(lock.packages[0].file, "one-1.0-py3-none-any.whl");
    assert_string_equal(lock.packages[0].sha256, HASH);
    assert_string_equal(lock.packages[1].version, "2.0+cpu");
    assert_string_equal(lock.packages[1].file, "two-2.0+cpu-cp313-cp313-linux_x86_64.whl");
    assert_string_equal(lock.packages[1].sha256, HASH);
    assert_null(lock.packages[2].url);
    lock_file_free(&lock);
}

static void what_an_index_may_not_say(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "file:///etc/passwd.whl",
        "ftp://x/a-1-py3-none-any.whl",
        "https://x/..%2f..%2fevil.whl",
        "https://x/.hidden.whl",
        "https://x/a b.whl",
        "https://x/evil.tar.gz",
        "https://x/a%0Ab.whl",
        "https://x/a%00b.whl",
        "https://x/a\\b.whl",
        "https://x/-K.whl\nnext",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(urls); i++) {
        struct lock_file lock = {0};
        char text[512];
        (void)snprintf(text, sizeof text,
                       "[[packages]]\nname = \"a\"\nversion = \"1\"\nwheels = [{ url = \"%s\", "
                       "hashes = { sha256 = \"" HASH "\" } }]\n",
                       urls[i]);
        bool taken = read_text(text, &lock) == 0 && lock.packages[0].url;
        lock_file_free(&lock);
        if (taken)
            fail_msg("'%s' must not be taken", urls[i]);
    }
    static const char *const texts[] = {
        "[[packages]]\nname = \"../a\"\nversion = \"1\"\n",
        "[[packages]]\nname = \"a\"\nversion = \"1/2\"\n",
        "[[packages]]\nname = \"a\"\n",
        "[[packages]]\nversion = \"1\"\n",
        "[[packages]]\nname = \"a\"\nversion = \"1\"\nwheels = [{ url = \"https://x/a.whl\", "
        "hashes = { sha256 = \"00\" } }]\n",
        "[[packages]]\nname = \"a\"\nversion = \"1\"\nwheels = [{ url = \"https://x/a.whl\", "
        "hashes = { sha256 = \"00",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++) {
        struct lock_file lock = {0};
        assert_true(read_text(texts[i], &lock) < 0);
        lock_file_free(&lock);
    }
}

static void not_too_many(void **state)
{
    (void)state;
    char *text = calloc(MAX_INSTALL_PACKAGES + 1, 64);
    for (int i = 0; i <= MAX_INSTALL_PACKAGES; i++)
        (void)strcat(text, "[[packages]]\nname = \"a\"\nversion = \"1\"\n");
    struct lock_file lock = {0};
    assert_int_equal(read_text(text, &lock), -E2BIG);
    lock_file_free(&lock);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_uv_writes_it),
                                       cmocka_unit_test(what_an_index_may_not_say),
                                       cmocka_unit_test(not_too_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
