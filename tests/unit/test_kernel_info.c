#include "shim/kernel_info.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void expect(const char *content, const char *summary)
{
    json_t *given = json_loads(content, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    json_t *expected = json_loads(summary, 0, NULL);
    json_t *actual = kernel_info_summary(given);
    assert_true(json_equal(actual, expected));
    json_decref(given);
    json_decref(expected);
    json_decref(actual);
}

#define EMPTY                                                                                      \
    "{\"language\":\"\",\"language_version\":\"\",\"implementation\":\"\","                        \
    "\"implementation_version\":\"\",\"protocol_version\":\"\"}"

static void summaries(void **state)
{
    (void)state;
    expect(
        "{\"protocol_version\":\"5.3\",\"implementation\":\"ipython\",\"banner\":\"x\","
        "\"implementation_version\":\"9.1\",\"language_info\":{\"name\":\"python\",\"version\":\"3."
        "13.1\"}}",
        "{\"language\":\"python\",\"language_version\":\"3.13.1\",\"implementation\":\"ipython\","
        "\"implementation_version\":\"9.1\",\"protocol_version\":\"5.3\"}");
    expect("{}", EMPTY);
    expect("{\"protocol_version\":5.3,\"implementation\":[],\"language_info\":\"x\"}", EMPTY);
    json_t *summary = kernel_info_summary(NULL);
    assert_int_equal(json_object_size(summary), 5);
    json_decref(summary);
}

static void long_values(void **state)
{
    (void)state;
    char text[1000];
    for (size_t i = 0; i + 3 < sizeof text; i += 3)
        memcpy(text + i, "\xe6\xad\xa3", 4);
    json_t *content = json_pack("{s:s}", "implementation", text);
    json_t *summary = kernel_info_summary(content);
    assert_int_equal(json_string_length(json_object_get(summary, "implementation")), 63);
    json_decref(content);
    json_decref(summary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(summaries),
        cmocka_unit_test(long_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
