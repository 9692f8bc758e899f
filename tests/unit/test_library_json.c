/* What the client library sends and reads as JSON: library/order.h, library/reading.h, library/complaint.h, library/path.h. */
#include "library/reading.h"

#include "library/complaint.h"
#include "library/gift.h"
#include "library/order.h"
#include "library/path.h"
#include "unit.h"

/* --- order -------------------------------------------------------------------------------------- */

static void test_order(void **state _unused_)
{
    static const char *const list[] = {"a", "\xe6\xad\xa3"};
    static const struct husk_variable variables[] = {{"A", "b"}, {"C", ""}};
    struct husk_error error;
    struct order order;
    _cleanup_free_ char *text = NULL;
    order_begin(&order, &error);
    order_put_text(&order, "absent", NULL);
    order_put_number(&order, "zero", 0);
    order_put_flag(&order, "off", false);
    order_put_list(&order, "none", list, 0);
    order_put_text(&order, "text", "\"");
    order_put_bytes(&order, "bytes", "a\0b", 3);
    order_put_number(&order, "number", 7);
    order_put_real(&order, "real", 0.5);
    order_put_flag(&order, "on", true);
    order_put_list(&order, "list", list, 2);
    order_put_variables(&order, variables, 2);
    assert_int_equal(order_text(&order, &text), 0);
    assert_string_equal(
        text, "{\"text\":\"\\\"\",\"bytes\":\"a\\u0000b\",\"number\":7,\"real\":0.5,"
              "\"on\":true,\"list\":[\"a\",\"\xe6\xad\xa3\"],\"env\":{\"A\":\"b\",\"C\":\"\"}}");
}

/* The first fault stays, whatever follows. */
static void test_order_faults(void **state _unused_)
{
    static const char *const holes[] = {"a", NULL}, *const wrong[] = {"a", "\xff"};
    static const struct husk_variable nameless[] = {{NULL, "b"}}, valueless[] = {{"A", NULL}};
    for (int fault = 0; fault < 8; fault++) {
        struct husk_error error;
        struct order order;
        char *text = NULL;
        order_begin(&order, &error);
        if (fault == 0)
            order_put_text(&order, "x", "\xff");
        if (fault == 1)
            order_put_number(&order, "x", UINT64_MAX);
        if (fault == 2)
            order_put_real(&order, "x", -1);
        if (fault == 3)
            order_put_real(&order, "x", 1 / 0.0);
        if (fault == 4)
            order_put_list(&order, "x", holes, 2);
        if (fault == 5)
            order_put_list(&order, "x", wrong, 2);
        if (fault == 6)
            order_put_variables(&order, nameless, 1);
        if (fault == 7)
            order_put_variables(&order, valueless, 1);
        order_put_text(&order, "good", "text");
        assert_int_equal(order_text(&order, &text), -HUSK_ERROR_ARGUMENT);
        assert_null(text);
        assert_true(*error.message != '\0');
    }
}

/* --- reading ------------------------------------------------------------------------------------ */

static void test_reading(void **state _unused_)
{
    static const char text[] =
        "{\"t\": \"a\\u0000b\", \"n\": 5, \"r\": 1.5, \"f\": true, \"l\": [], \"nil\": null}";
    struct husk_error error = {0};
    struct reading reading = {.gift = gift_new(1), .error = &error, .http_status = 200};
    const json_t *json = reading_parse(&reading, text, sizeof text - 1);
    assert_non_null(json);
    assert_string_equal(reading_text(&reading, json, "t", ""), "a\xef\xbf\xbd"
                                                               "b");
    assert_int_equal(reading_bytes(&reading, json, "t").length, 3);
    assert_int_equal(reading_number(&reading, json, "n"), 5);
    assert_true(reading_real(&reading, json, "r") > 1.4 && reading_real(&reading, json, "n") > 4.9);
    assert_true(reading_flag(&reading, json, "f"));
    assert_non_null(reading_list(&reading, json, "l"));
    assert_null(reading_text(&reading, json, "nil", NULL));
    assert_string_equal(reading_bytes(&reading, json, "absent").data, "");
    assert_int_equal(reading_int(&reading, json, "absent", -1), -1);
    assert_int_equal(reading.result, 0);
    (void)reading_number(&reading, json, "r");
    assert_int_equal(reading.result, -HUSK_ERROR_ANSWER);
    assert_int_equal(error.http_status, 200);
    assert_non_null(strstr(error.message, "'r'"));
    /* From now on everything is absent. */
    assert_int_equal(reading_number(&reading, json, "n"), 0);
    assert_string_equal(reading_required_text(&reading, json, "t"), "");
    assert_null(gift_free(reading.gift));
}

/* --- sentences and paths ------------------------------------------------------------------------ */

static void test_sentences(void **state _unused_)
{
    struct husk_error error;
    char lengthy[2000];
    memset(lengthy, 'x', sizeof lengthy);
    lengthy[sizeof lengthy - 1] = '\0';
    assert_int_equal(complain(&error, HUSK_ERROR_FILE, "a\n\x1b[1m\x7f \xc2\x9b \xc3\xa9"),
                     -HUSK_ERROR_FILE);
    assert_string_equal(error.message, "a  [1m     \xc3\xa9");
    assert_int_equal(complain(&error, HUSK_ERROR_FILE, "%s", lengthy), -HUSK_ERROR_FILE);
    assert_int_equal(strlen(error.message), sizeof error.message - 1);
    assert_int_equal(complain(NULL, HUSK_ERROR_FILE, "nobody listens"), -HUSK_ERROR_FILE);
    assert_string_equal(husk_error_name(HUSK_ERROR_BROKEN), "broken");
    assert_string_equal(husk_error_name((enum husk_error_kind)0), "unknown");
    assert_string_equal(husk_error_name((enum husk_error_kind) - 1), "unknown");
}

static void test_paths(void **state _unused_)
{
    struct husk_error error;
    struct path path;
    path_begin(&path, "a/b", "/download/", &error);
    path_add_file(&path, "x/y z?");
    assert_int_equal(path.result, 0);
    assert_string_equal(path.text.data, "/sandbox/a%2Fb/download/x/y%20z%3F");
    path_free(&path);
    path_begin(&path, "", "/x", &error);
    path_add_name(&path, "good", "name");
    assert_int_equal(path.result, -HUSK_ERROR_ARGUMENT);
    path_free(&path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),   cmocka_unit_test(test_order_faults),
        cmocka_unit_test(test_reading), cmocka_unit_test(test_sentences),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
