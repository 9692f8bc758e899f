#include "base/loopback.h"

#include "unit.h"

static void test_hosts(void **state _unused_)
{
    static const char *const good[] = {"localhost", "LocalHost", "127.0.0.1", "127.1.2.3", "[::1]"};
    static const char *const bad[] = {"",
                                      "127.0.0.1.example.com",
                                      "127.example.com",
                                      "128.0.0.1",
                                      "::1",
                                      "[::2]",
                                      "localhost.example.com",
                                      "127.",
                                      "127.0.0"};
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++)
        assert_true(is_loopback(good[i]));
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        assert_false(is_loopback(bad[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hosts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
