/* Routes: which handler, which parameter, which methods. And the text of request targets. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "http/router.h"
#include "http/routes.h"
#include "http/uri.h"

static enum route_result match(const char *method, const char *path, struct route_match *ret)
{
    return router_match(routes, routes_count, method, path, ret);
}

static void test_found(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path, *pattern, *parameter;
    } cases[] = {
        {"POST", "/sandbox/create", "/sandbox/create", NULL},
        {"GET", "/sandboxes", "/sandboxes", NULL},
        {"HEAD", "/sandboxes", "/sandboxes", NULL},
        {"GET", "/sandbox/a", "/sandbox/{id}", "a"},
        {"HEAD", "/sandbox/a%2fb", "/sandbox/{id}", "a%2fb"},
        {"DELETE", "/sandbox/closed", "/sandbox/{id}", "closed"},
        {"POST", "/sandbox/x/execute", "/sandbox/{id}/execute", "x"},
        {"POST", "/sandbox/create/execute", "/sandbox/{id}/execute", "create"},
        {"POST", "/sandbox/execute/close", "/sandbox/{id}/close", "execute"},
        {"GET", "/health", "/health", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct route_match found;
        assert_int_equal(match(cases[i].method, cases[i].path, &found), ROUTE_FOUND);
        assert_string_equal(found.route->pattern, cases[i].pattern);
        if (!cases[i].parameter) {
            assert_null(found.parameter);
            continue;
        }
        assert_int_equal(found.parameter_length, strlen(cases[i].parameter));
        assert_memory_equal(found.parameter, cases[i].parameter, found.parameter_length);
    }
}

static void test_unknown(void **state)
{
    (void)state;
    static const char *const paths[] = {
        "",
        "/",
        "//",
        "/sandbox",
        "/sandbox/",
        "/sandboxes/",
        "/health/x",
        "/sandbox//execute",
        "/sandbox/a/",
        "/sandbox/a/b",
        "/sandbox/a/execute/",
        "/SANDBOXES",
        "*",
        "/sandbox/a/execute/b",
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct route_match found;
        assert_int_equal(match("GET", paths[i], &found), ROUTE_UNKNOWN);
    }
}

static void test_wrong_method(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path, *allow;
    } cases[] = {
        {"GET", "/sandbox/create", "POST"},    {"DELETE", "/sandbox/create", "POST"},
        {"POST", "/sandboxes", "GET, HEAD"},   {"PUT", "/sandbox/x", "GET, HEAD, DELETE"},
        {"GET", "/sandbox/x/execute", "POST"}, {"HEAD", "/sandbox/x/execute", "POST"},
        {"BREW", "/health", "GET, HEAD"},      {"OPTIONS", "/health", "GET, HEAD"},
        {"", "/health", "GET, HEAD"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct route_match found;
        assert_int_equal(match(cases[i].method, cases[i].path, &found), ROUTE_WRONG_METHOD);
        assert_string_equal(found.allow, cases[i].allow);
    }
}

/* Every route can be reached, and only /health is open. */
static void test_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < routes_count; i++) {
        struct route_match found;
        assert_int_equal(match(routes[i].method, routes[i].pattern, &found), ROUTE_FOUND);
        assert_ptr_equal(found.route, &routes[i]);
        assert_non_null(routes[i].handle);
        assert_true(routes[i].body_limit > 0 && routes[i].json_limit > 0);
        assert_int_equal(routes[i].open, !strcmp(routes[i].pattern, "/health"));
    }
}

static void test_decode(void **state)
{
    (void)state;
    char out[16];
    static const struct {
        const char *text, *decoded;
    } good[] = {
        {"", ""},       {"abc", "abc"}, {"a%2Fb", "a/b"}, {"%41%62", "Ab"},
        {"a+b", "a+b"}, {"%25", "%"},   {"%2525", "%25"}, {"%c3%a4", "ä"},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(uri_decode(good[i].text, strlen(good[i].text), out, sizeof out),
                         strlen(good[i].decoded));
        assert_string_equal(out, good[i].decoded);
    }
    static const char *const bad[] = {"%", "%2", "a%zz", "%00", "%ff", "%ed%a0%80", "%-1", "% 1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(uri_decode(bad[i], strlen(bad[i]), out, sizeof out), -EINVAL);
    assert_int_equal(uri_decode("0123456789abcdef", 16, out, sizeof out), -ENAMETOOLONG);
    assert_int_equal(uri_decode("0123456789abcde", 15, out, sizeof out), 15);
    /* Only what belongs to it is looked at. */
    assert_int_equal(uri_decode("a%41", 3, out, sizeof out), -EINVAL);
}

static void test_query(void **state)
{
    (void)state;
    char out[16];
    assert_int_equal(uri_query(NULL, "a", out, sizeof out), 0);
    assert_int_equal(uri_query("", "a", out, sizeof out), 0);
    assert_int_equal(uri_query("b=1&ab=2&a", "x", out, sizeof out), 0);
    assert_int_equal(uri_query("b=1&ab=2&a=3&a=4", "a", out, sizeof out), 1);
    assert_string_equal(out, "3");
    assert_int_equal(uri_query("a&b", "a", out, sizeof out), 1);
    assert_string_equal(out, "");
    assert_int_equal(uri_query("&&a=%31=&", "a", out, sizeof out), 1);
    assert_string_equal(out, "1=");
    assert_int_equal(uri_query("a=%", "a", out, sizeof out), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_wrong_method), cmocka_unit_test(test_table),
        cmocka_unit_test(test_decode),       cmocka_unit_test(test_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
