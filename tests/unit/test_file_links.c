/* Entries of "files" in an answer. */
#include "unit.h"

#include <sodium.h>

#include "base/clock.h"
#include "huskd/uri.h"
#include "shim/changed_files.h"
#include "shim/file_links.h"

#define KEY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static int from_text(const char *text, struct file_links *ret)
{
    struct failure why;
    struct id sandbox = {.bytes = {1, 2, 3}};
    json_error_t error;
    json_t *start = json_loads(text, 0, &error);
    assert_non_null(start);
    int r = file_links_from_start(start, sandbox, ret, &why);
    json_decref(start);
    return r;
}

static void test_from_start(void **state)
{
    (void)state;
    struct file_links links;
    static const char *const bad[] = {
        "{}",
        "{\"link_seconds\": 5}",
        "{\"link_seconds\": 5, \"record\": {}}",
        "{\"link_seconds\": 5, \"record\": {\"link_key\": \"00\"}}",
        "{\"link_seconds\": 5, \"record\": {\"link_key\": 7}}",
        "{\"link_seconds\": 0, \"record\": {\"link_key\": \"" KEY "\"}}",
        "{\"link_seconds\": 99999999999, \"record\": {\"link_key\": \"" KEY "\"}}",
        "{\"link_seconds\": \"5\", \"record\": {\"link_key\": \"" KEY "\"}}",
        "{\"record\": {\"link_key\": \"" KEY "\"}}",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        assert_int_equal(from_text(bad[i], &links), -EINVAL);
    assert_int_equal(
        from_text("{\"link_seconds\": 60, \"record\": {\"link_key\": \"" KEY "\"}}", &links), 0);
    assert_int_equal(links.seconds, 60);
    assert_int_equal(links.key.bytes[31], 31);
    assert_int_equal(links.sandbox.bytes[1], 2);
}

static const char *text_of(const json_t *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry, key));
    assert_non_null(text);
    return text;
}

static void test_entry(void **state)
{
    (void)state;
    struct file_links links;
    char path[] = "plots/my \"sine\".png", expires[32], signature[80];
    struct changed_file file = {.path = path, .size = 31337, .created = true};
    int64_t before = wall_seconds();
    assert_int_equal(
        from_text("{\"link_seconds\": 60, \"record\": {\"link_key\": \"" KEY "\"}}", &links), 0);
    json_t *entry = file_links_entry(&links, &file);
    assert_int_equal(json_object_size(entry), 5);
    assert_string_equal(text_of(entry, "path"), path);
    assert_string_equal(text_of(entry, "type"), "image/png");
    assert_string_equal(text_of(entry, "change"), "created");
    assert_int_equal(json_integer_value(json_object_get(entry, "size")), 31337);
    const char *url = text_of(entry, "url");
    assert_non_null(strstr(url, "/download/plots/my%20%22sine%22.png?expires="));
    assert_int_equal(uri_query(strchr(url, '?') + 1, "expires", expires, sizeof expires), 1);
    assert_int_equal(uri_query(strchr(url, '?') + 1, "signature", signature, sizeof signature), 1);
    assert_in_range(strtoll(expires, NULL, 10), before + 60, wall_seconds() + 60);
    struct link_target target = {.key = &links.key, .id = links.sandbox, .path = path};
    assert_int_equal(link_check(&target, expires, signature, before), 0);
    json_decref(entry);
    file.created = false;
    entry = file_links_entry(&links, &file);
    assert_string_equal(text_of(entry, "change"), "changed");
    json_decref(entry);
}

int main(void)
{
    if (sodium_init() < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_start),
        cmocka_unit_test(test_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
