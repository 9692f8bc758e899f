/* Host, Origin, CORS and API key. */
#include "unit.h"

#include <sodium.h>
#include <stdlib.h>

#include "http/guard.h"
#include "huskd/caller.h"
#include "huskd/config.h"
#include "huskd/keyring.h"
#include "huskd/problem.h"

static char nothing[] = "";

static struct callers *callers;
static struct keyring *keyring;

/* With free_guard(): one at a time. */
static struct guard *make(const char *hosts, const char *origins, const char *key,
                          const char *listen)
{
    struct failure why;
    struct config config = {
        .api_key_hash = nothing,
        .keys_file = nothing,
        .tls_cert = nothing,
        .allowed_hosts = (char *)(uintptr_t)hosts,
        .cors_origins = (char *)(uintptr_t)origins,
        .api_key = (char *)(uintptr_t)key,
    };
    callers = callers_new();
    assert_int_equal(keyring_new(&config, callers, &keyring, &why), 0);
    return guard_new(&config, listen, keyring);
}

static void free_guard(struct guard *guard)
{
    guard_free(guard);
    keyring = keyring_free(keyring);
    callers = callers_free(callers);
}

static enum problem_kind admits(const struct guard *guard, const char *host, const char *origin)
{
    struct problem problem;
    struct credentials credentials = {.host = host, .origin = origin};
    return guard_admits(guard, &credentials, &problem) ? PROBLEM_NONE : problem.kind;
}

static void test_hosts(void **state)
{
    (void)state;
    struct guard *guard = make(nothing, nothing, nothing, "127.0.0.1");
    static const char *const good[] = {"localhost",  "localhost:8000", "LocalHost:1",
                                       "127.0.0.1",  "127.0.0.1:8000", "[::1]",
                                       "[::1]:8000", "localhost:"};
    static const char *const bad[] = {"",
                                      "evil.example",
                                      "localhost.evil.example",
                                      "evil.localhost",
                                      "127.0.0.1.evil:80",
                                      "localhost@evil",
                                      "evil@localhost",
                                      "localhost:80:80",
                                      "localhost:x",
                                      "localhost/",
                                      "localhost ",
                                      "127.0.0.2",
                                      "0.0.0.0",
                                      "::1",
                                      "[::1",
                                      "[::1]x",
                                      "[]",
                                      ":8000",
                                      "localhost.",
                                      "xn--localhost"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_int_equal(admits(guard, good[i], NULL), PROBLEM_NONE);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(admits(guard, bad[i], NULL), PROBLEM_HOST_NOT_ALLOWED);
    assert_int_equal(admits(guard, NULL, NULL), PROBLEM_MALFORMED_REQUEST);
    free_guard(guard);
}

static void test_configured_hosts(void **state)
{
    (void)state;
    struct guard *guard = make("husk.example, Other.example ,", nothing, nothing, "192.0.2.7");
    assert_int_equal(admits(guard, "husk.example:443", NULL), PROBLEM_NONE);
    assert_int_equal(admits(guard, "other.EXAMPLE", NULL), PROBLEM_NONE);
    assert_int_equal(admits(guard, "192.0.2.7:8000", NULL), PROBLEM_NONE);
    assert_int_equal(admits(guard, "192.0.2.70", NULL), PROBLEM_HOST_NOT_ALLOWED);
    assert_int_equal(admits(guard, "example", NULL), PROBLEM_HOST_NOT_ALLOWED);
    free_guard(guard);
    guard = make(nothing, nothing, nothing, "0.0.0.0");
    assert_int_equal(admits(guard, "0.0.0.0:8000", NULL), PROBLEM_HOST_NOT_ALLOWED);
    free_guard(guard);
    guard = make("*", nothing, nothing, "0.0.0.0");
    assert_int_equal(admits(guard, "anything.example", NULL), PROBLEM_NONE);
    assert_int_equal(admits(guard, "", NULL), PROBLEM_HOST_NOT_ALLOWED);
    free_guard(guard);
}

static void test_origins(void **state)
{
    (void)state;
    struct guard *guard = make(nothing, nothing, nothing, "127.0.0.1");
    static const char *const good[] = {"http://localhost", "http://localhost:3000",
                                       "https://127.0.0.1:1", "http://[::1]:8000"};
    static const char *const bad[] = {"null",
                                      "",
                                      "http://evil.example",
                                      "file://",
                                      "localhost",
                                      "http://localhost.evil.example",
                                      "ftp://localhost",
                                      "http://",
                                      "http://localhost/path",
                                      "https://evil/localhost"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(admits(guard, "localhost", good[i]), PROBLEM_NONE);
        assert_false(guard_shares_with(guard, good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(admits(guard, "localhost", bad[i]), PROBLEM_ORIGIN_NOT_ALLOWED);
    free_guard(guard);
}

static void test_cors(void **state)
{
    (void)state;
    struct guard *guard = make(nothing, "https://app.example, http://b.example:81", nothing, "::1");
    assert_true(guard_shares_with(guard, "https://app.example"));
    assert_true(guard_shares_with(guard, "http://b.example:81"));
    assert_false(guard_shares_with(guard, "http://app.example"));
    assert_false(guard_shares_with(guard, "https://app.example:444"));
    assert_int_equal(admits(guard, "[::1]", "https://app.example"), PROBLEM_NONE);
    assert_int_equal(admits(guard, "[::1]", "https://c.example"), PROBLEM_ORIGIN_NOT_ALLOWED);
    free_guard(guard);
    guard = make(nothing, "*", nothing, "127.0.0.1");
    assert_true(guard_shares_with(guard, "https://anything.example"));
    assert_int_equal(admits(guard, "localhost", "null"), PROBLEM_NONE);
    free_guard(guard);
}

static bool knows(const struct guard *guard, const char *authorization, const char *api_key)
{
    struct problem problem;
    struct credentials credentials = {.authorization = authorization, .api_key = api_key};
    struct caller *known = guard_caller(guard, &credentials, &problem);
    if (known)
        assert_ptr_equal(known, callers_admin(callers));
    else
        assert_int_equal(problem.kind, PROBLEM_UNAUTHORIZED);
    return known != NULL;
}

static void test_key(void **state)
{
    (void)state;
    struct guard *guard = make(nothing, nothing, "correct horse", "127.0.0.1");
    assert_true(knows(guard, "Bearer correct horse", NULL));
    assert_true(knows(guard, "bearer  correct horse", NULL));
    assert_true(knows(guard, NULL, "correct horse"));
    assert_true(knows(guard, "Basic abc", "correct horse"));
    assert_false(knows(guard, NULL, NULL));
    assert_false(knows(guard, NULL, ""));
    assert_false(knows(guard, "Bearer", NULL));
    assert_false(knows(guard, "Bearer ", NULL));
    assert_false(knows(guard, "correct horse", NULL));
    assert_false(knows(guard, "Basic correct horse", NULL));
    assert_false(knows(guard, NULL, "correct hors"));
    assert_false(knows(guard, NULL, "correct horse "));
    assert_false(knows(guard, "Bearer wrong", "correct horse"));
    free_guard(guard);
    guard = make(nothing, nothing, nothing, "127.0.0.1");
    assert_true(knows(guard, NULL, NULL));
    free_guard(guard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),   cmocka_unit_test(test_configured_hosts),
        cmocka_unit_test(test_origins), cmocka_unit_test(test_cors),
        cmocka_unit_test(test_key),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
