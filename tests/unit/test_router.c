/* Routes: which handler, which parameter, which methods. And the text of request targets. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "http/router.h"
#include "http/routes.h"
#include "huskd/uri.h"

#define DOWNLOAD "/sandbox/{id}/download/{path*}"

static enum route_result match(const char *method, const char *path, struct route_match *ret)
{
    return router_match(routes, routes_count, method, path, ret);
}

static void assert_parameter(const struct route_parameter *parameter, const char *text)
{
    if (!text) {
        assert_null(parameter->text);
        return;
    }
    assert_int_equal(parameter->length, strlen(text));
    assert_memory_equal(parameter->text, text, parameter->length);
}

static void test_found(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path, *pattern, *parameter, *second;
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
        {"GET", "/sandbox/x/download/a", DOWNLOAD, "x", "a"},
        {"HEAD", "/sandbox/x/download/a/b%2fc//d/", DOWNLOAD, "x", "a/b%2fc//d/"},
        {"GET", "/sandbox/x/download//home/user/a", DOWNLOAD, "x", "/home/user/a"},
        {"GET", "/sandbox/x/download/../../y", DOWNLOAD, "x", "../../y"},
        {"GET", "/sandbox/download/download/download", DOWNLOAD, "download", "download"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct route_match found;
        assert_int_equal(match(cases[i].method, cases[i].path, &found), ROUTE_FOUND);
        assert_string_equal(found.route->pattern, cases[i].pattern);
        assert_parameter(&found.parameters[0], cases[i].parameter);
        assert_parameter(&found.parameters[1], cases[i].second);
    }
}

/* Two segments, and what is left after one or two of them. */
static void test_two_parameters(void **state)
{
    (void)state;
    static const struct route table[] = {
        {.method = "GET", .pattern = "/a/{x}/b/{y}"},
        {.method = "GET", .pattern = "/a/{x}/{rest*}"},
        {.method = "PUT", .pattern = "/{rest*}"},
    };
    static const struct {
        const char *method, *path;
        size_t route;
        const char *first, *second;
    } cases[] = {
        {"GET", "/a/1/b/2", 0, "1", "2"},        {"GET", "/a/1/b/2/3", 1, "1", "b/2/3"},
        {"GET", "/a/1/b/", 1, "1", "b/"},        {"GET", "/a/1//", 1, "1", "/"},
        {"PUT", "/a/1/b/2", 2, "a/1/b/2", NULL}, {"PUT", "//", 2, "/", NULL},
    };
    struct route_match found;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        assert_int_equal(
            router_match(table, ARRAY_LENGTH(table), cases[i].method, cases[i].path, &found),
            ROUTE_FOUND);
        assert_ptr_equal(found.route, &table[cases[i].route]);
        assert_parameter(&found.parameters[0], cases[i].first);
        assert_parameter(&found.parameters[1], cases[i].second);
    }
    assert_int_equal(router_match(table, ARRAY_LENGTH(table), "GET", "/a/1/", &found),
                     ROUTE_WRONG_METHOD);
    assert_int_equal(router_match(table, 2, "GET", "/a/1/", &found), ROUTE_UNKNOWN);
    assert_int_equal(router_match(table, 2, "GET", "/a/1", &found), ROUTE_UNKNOWN);
    assert_int_equal(router_match(table, ARRAY_LENGTH(table), "PUT", "/", &found), ROUTE_UNKNOWN);
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
        "/sandbox//download/b",
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

/* Every route can be reached, only /health is open, and only downloads can be had by a link. */
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
        assert_int_equal(routes[i].linked, !strcmp(routes[i].pattern, DOWNLOAD) ||
                                               !strcmp(routes[i].pattern, "/sandbox/file"));
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
    /* As forms write it; in a path a plus is a plus. */
    assert_int_equal(uri_query("a=b+c%2Bd", "a", out, sizeof out), 1);
    assert_string_equal(out, "b c+d");
    assert_int_equal(uri_decode("b+c", 3, out, sizeof out), 3);
    assert_string_equal(out, "b+c");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),          cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_two_parameters), cmocka_unit_test(test_wrong_method),
        cmocka_unit_test(test_table),          cmocka_unit_test(test_decode),
        cmocka_unit_test(test_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
