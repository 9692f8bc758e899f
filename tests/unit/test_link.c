/* Signed links: what is signed is accepted, whatever else is not. */
#include "unit.h"

#include <errno.h>
#include <sodium.h>

#include "base/link.h"
#include "base/percent.h"
#include "huskd/uri.h"

enum {
    UNTIL = 2000000000
};

struct parts {
    char url[8192];
    char path[2048];
    char expires[64];
    char signature[128];
};

/* A link, taken apart as huskd does with what a client sends. */
static void make(const struct link_target *target, int64_t expires, struct parts *parts)
{
    _cleanup_buffer_ struct buffer out = {0};
    assert_int_equal(link_format(target, expires, &out), 0);
    (void)snprintf(parts->url, sizeof parts->url, "%s", buffer_text(&out));
    char *query = strchr(parts->url, '?');
    const char *path = strstr(parts->url, "/download/") + strlen("/download/");
    assert_true(uri_decode(path, (size_t)(query - path), parts->path, sizeof parts->path) > 0);
    assert_int_equal(uri_query(query + 1, "expires", parts->expires, sizeof parts->expires), 1);
    assert_int_equal(uri_query(query + 1, "signature", parts->signature, sizeof parts->signature),
                     1);
}

struct fixture {
    struct link_key key;
    struct link_target target;
    struct parts parts;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_true(sodium_init() >= 0);
    fixture->key = link_key_new();
    fixture->target =
        (struct link_target){.key = &fixture->key, .id = id_new(), .path = "a/b c.png"};
    make(&fixture->target, UNTIL, &fixture->parts);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

static int check(const struct fixture *fixture, const char *expires, const char *signature)
{
    return link_check(&fixture->target, expires, signature, UNTIL - 1);
}

static void test_form(void **state)
{
    struct fixture *fixture = *state;
    char id[ID_TEXT_SIZE], start[128];
    id_format(fixture->target.id, id);
    (void)snprintf(start, sizeof start,
                   "/sandbox/%s/download/a/b%%20c.png?expires=2000000000&signature=", id);
    assert_memory_equal(fixture->parts.url, start, strlen(start));
    assert_int_equal(strlen(fixture->parts.url), strlen(start) + 64);
}

/* Computed with Python's hmac module, so that the meaning of old links does not change by accident. */
static void test_known_answer(void **state)
{
    (void)state;
    struct link_key key;
    struct id id;
    struct parts parts;
    for (unsigned i = 0; i < LINK_KEY_BYTES; i++)
        key.bytes[i] = (uint8_t)i;
    assert_int_equal(id_parse("00112233-4455-6677-8899-aabbccddeeff", &id), 0);
    make(&(struct link_target){.key = &key, .id = id, .path = "sine.png"}, 1234567890, &parts);
    assert_string_equal(parts.signature,
                        "2a1442edba2431364e857c7835551618f7949359df7fdb6c468f974419ad5c55");
}

static void test_good(void **state)
{
    struct fixture *fixture = *state;
    const struct parts *parts = &fixture->parts;
    assert_int_equal(link_check(&fixture->target, parts->expires, parts->signature, 0), 0);
    assert_int_equal(link_check(&fixture->target, parts->expires, parts->signature, UNTIL), 0);
    static const char *const paths[] = {"x",      "\xf0\x9f\x8c\xbd", "a?b=c&signature=d#e",
                                        "100%25", "\"quotes\"\r\n",   "a//b/../c",
                                        " "};
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++) {
        struct link_target target = fixture->target;
        struct parts made;
        target.path = paths[i];
        make(&target, UNTIL, &made);
        assert_string_equal(made.path, paths[i]);
        assert_int_equal(strcspn(made.url, "\"\r\n #"), strlen(made.url));
        assert_int_equal(link_check(&target, made.expires, made.signature, 0), 0);
    }
}

static void test_expired(void **state)
{
    struct fixture *fixture = *state;
    const struct parts *parts = &fixture->parts;
    assert_int_equal(link_check(&fixture->target, parts->expires, parts->signature, UNTIL + 1),
                     -ETIME);
    /* What is wrong is wrong, not expired. */
    assert_int_equal(link_check(&fixture->target, "5", parts->signature, UNTIL), -EACCES);
}

static void test_tampered(void **state)
{
    struct fixture *fixture = *state;
    const struct parts *parts = &fixture->parts;
    static const char *const paths[] = {"a/b c.pn", "a/b c.pngx", "",
                                        "b c.png",  "A/b c.png",  "a//b c.png"};
    for (size_t i = 0; i < ARRAY_LENGTH(paths); i++) {
        struct fixture other = *fixture;
        other.target.path = paths[i];
        assert_int_equal(check(&other, parts->expires, parts->signature), -EACCES);
    }
    static const char *const moments[] = {"2000000001",
                                          "1999999999",
                                          "20000000000",
                                          "",
                                          "x",
                                          "-1",
                                          " 2000000000",
                                          "+2000000000",
                                          "2000000000 ",
                                          "2e9",
                                          "18446744073709551616",
                                          "9223372036854775808",
                                          "000000000000000000002000000000"};
    for (size_t i = 0; i < ARRAY_LENGTH(moments); i++)
        assert_int_equal(check(fixture, moments[i], parts->signature), -EACCES);
}

static void test_every_bit_of_the_signature(void **state)
{
    struct fixture *fixture = *state;
    for (size_t at = 0; at < 64; at++) {
        struct parts parts = fixture->parts;
        parts.signature[at] = parts.signature[at] == '0' ? '1' : '0';
        assert_int_equal(check(fixture, parts.expires, parts.signature), -EACCES);
    }
}

static void test_spellings_of_the_signature(void **state)
{
    struct fixture *fixture = *state;
    struct parts parts = fixture->parts;
    char longer[256];
    (void)snprintf(longer, sizeof longer, "%s00", parts.signature);
    assert_int_equal(check(fixture, parts.expires, longer), -EACCES);
    (void)snprintf(longer, sizeof longer, " %s", parts.signature);
    assert_int_equal(check(fixture, parts.expires, longer), -EACCES);
    assert_int_equal(check(fixture, parts.expires, ""), -EACCES);
    assert_int_equal(check(fixture, parts.expires, "0"), -EACCES);
    bool upper = false;
    for (char *c = parts.signature; *c; c++) {
        upper = upper || (*c >= 'a' && *c <= 'f');
        *c = (char)(*c >= 'a' && *c <= 'f' ? *c - 32 : *c);
    }
    assert_true(upper);
    assert_int_equal(check(fixture, parts.expires, parts.signature), -EACCES);
    parts.signature[63] = '\0';
    assert_int_equal(check(fixture, parts.expires, parts.signature), -EACCES);
}

/* Of another sandbox: its id, its key. */
static void test_other_sandbox(void **state)
{
    struct fixture *fixture = *state;
    const struct parts *parts = &fixture->parts;
    struct link_key other_key = link_key_new();
    struct fixture other = *fixture;
    other.target.id = id_new();
    assert_int_equal(check(&other, parts->expires, parts->signature), -EACCES);
    other.target = fixture->target;
    other.target.key = &other_key;
    assert_int_equal(check(&other, parts->expires, parts->signature), -EACCES);
}

static void test_keys(void **state)
{
    struct fixture *fixture = *state;
    struct link_key again, another = link_key_new();
    char text[LINK_KEY_TEXT_SIZE];
    assert_memory_not_equal(&another, &fixture->key, sizeof another);
    link_key_format(&fixture->key, text);
    assert_int_equal(link_key_parse(text, &again), 0);
    assert_memory_equal(&again, &fixture->key, sizeof again);
    assert_int_equal(link_key_parse(text + 1, &again), -EINVAL);
    assert_int_equal(link_key_parse("", &again), -EINVAL);
    text[5] = 'g';
    assert_int_equal(link_key_parse(text, &again), -EINVAL);
}

static void test_percent(void **state)
{
    (void)state;
    _cleanup_buffer_ struct buffer out = BUFFER_LIMITED(64);
    assert_int_equal(percent_encode("aZ09-._~/ %\"\r\n\xc3\xa4'", "/", &out), 0);
    assert_string_equal(buffer_text(&out), "aZ09-._~/%20%25%22%0D%0A%C3%A4%27");
    buffer_clear(&out);
    assert_int_equal(percent_encode("a/b", "", &out), 0);
    assert_string_equal(buffer_text(&out), "a%2Fb");
    assert_int_equal(percent_encode("\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"", "", &out),
                     -ENOSPC);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_form),
        TEST(test_known_answer),
        TEST(test_good),
        TEST(test_expired),
        TEST(test_tampered),
        TEST(test_every_bit_of_the_signature),
        TEST(test_spellings_of_the_signature),
        TEST(test_other_sandbox),
        TEST(test_keys),
        TEST(test_percent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
