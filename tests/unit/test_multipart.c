/* Forms: what clients of all kinds send, cut at every byte, and what nobody should send. */
#include "unit.h"

#include "base/buffer.h"
#include "http/multipart.h"

struct seen {
    struct multipart *form;
    struct buffer text; /* "name|file name|content;" of each part */
    unsigned parts;
    bool stop_at_files, stop_at_data;
    unsigned stops;
};

static bool on_part(const struct multipart_part *part, void *user)
{
    struct seen *seen = user;
    if (seen->parts++ > 0)
        assert_int_equal(buffer_append_text(&seen->text, ";"), 0);
    assert_int_equal(
        buffer_printf(&seen->text, "%s|%s|", part->name, part->is_file ? part->file_name : "-"), 0);
    bool stop = seen->stop_at_files && part->is_file;
    seen->stops += stop;
    return !stop;
}

static bool on_data(const char *data, size_t length, void *user)
{
    struct seen *seen = user;
    assert_true(length > 0);
    assert_int_equal(buffer_append(&seen->text, data, length), 0);
    return !seen->stop_at_data;
}

static void begin(struct seen *seen)
{
    const struct multipart_events events = {.part = on_part, .data = on_data, .user = seen};
    *seen = (struct seen){0};
    seen->form = multipart_new("XX", &events);
}

static void end(struct seen *seen)
{
    multipart_free(seen->form);
    buffer_free(&seen->text);
}

/* In pieces of `step` bytes; what is not taken is offered again. 0 or -errno. */
static int feed(struct seen *seen, const char *text, size_t length, size_t step)
{
    for (size_t at = 0; at < length;) {
        size_t piece = length - at < step ? length - at : step;
        ssize_t taken = multipart_feed(seen->form, text + at, piece);
        if (taken < 0)
            return (int)taken;
        assert_true((size_t)taken <= piece);
        at += (size_t)taken;
    }
    return 0;
}

static void expect(const char *text, const char *wanted)
{
    for (int stopping = 0; stopping < 2; stopping++) {
        for (size_t step = 1; step <= strlen(text); step++) {
            struct seen seen;
            begin(&seen);
            seen.stop_at_files = stopping;
            assert_int_equal(feed(&seen, text, strlen(text), step), 0);
            assert_true(multipart_complete(seen.form));
            assert_string_equal(buffer_text(&seen.text), wanted);
            end(&seen);
        }
    }
}

#define PART(disposition, content)                                                                 \
    "--XX\r\nContent-Disposition: form-data; " disposition "\r\n\r\n" content "\r\n"
#define END "--XX--\r\n"

static void test_parts(void **state)
{
    (void)state;
    expect(PART("name=\"file\"; filename=\"a.csv\"", "1,2\r\n3,4") PART("name=file_path", "x/") END,
           "file|a.csv|1,2\r\n3,4;file_path|-|x/");
    expect(PART("name=\"a\"", "") PART("name=\"a\"", "") END, "a|-|;a|-|");
    expect("preamble\r\n" PART("name=\"a\"", "b") "--XX--", "a|-|b");
    expect(
        "--XX \t\r\ncontent-type: text/plain\r\nCONTENT-DISPOSITION: form-data; NAME=a\r\n\r\nb\r\n"
        "--XX--epilogue",
        "a|-|b");
    expect("--XX\r\n\r\nno headers\r\n" END, "|-|no headers");
    expect("--XX--", "");
}

/* What looks like a boundary and is none. */
static void test_near_boundaries(void **state)
{
    (void)state;
    expect(PART("name=a", "\r\r\n\r\n-\r\n--\r\n--X\r\r\n--XY\n--XX") END,
           "a|-|\r\r\n\r\n-\r\n--\r\n--X\r\r\n--XY\n--XX");
    expect(PART("name=a", "--XX\r\n--X\r") END, "a|-|--XX\r\n--X\r");
}

static void test_names(void **state)
{
    (void)state;
    expect(PART("name=f; filename=\"a \\\"b\\\" \\\\ c;d\"", "") END, "f|a \"b\" \\ c;d|");
    expect(PART("name=f; filename=\"C:\\dir\\x.txt\"", "") END, "f|C:\\dir\\x.txt|");
    expect(PART("name=f; filename=\"%22q%22 100%25\"", "") END, "f|\"q\" 100%25|");
    expect(PART("name=f; filename=\"a%0D%0ab\"", "") END, "f|a\r\nb|");
    expect(PART("name=f; filename=\"玉米🌽.csv\"", "") END, "f|玉米🌽.csv|");
    expect(PART("name=f; filename=\"%E7\"; filename*=UTF-8''%E7%8E%89.csv", "") END, "f|玉.csv|");
    expect(PART("name=f; filename*=utf-8'en'a%20b; filename=x", "") END, "f|a b|");
    expect(PART("name=f; filename=\"x\"; filename*=latin1''%E7", "") END, "f|x|");
    expect(PART("name=f; filename=plain.txt; other=1", "") END, "f|plain.txt|");
    expect(PART("name=f; filename=\"\"", "") END, "f||");
}

static void expect_bad(const char *text, size_t length)
{
    struct seen seen;
    begin(&seen);
    assert_int_equal(feed(&seen, text, length, length), -EBADMSG);
    end(&seen);
}

static void test_malformed(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "--XXY\r\n",
        "--XX\rX",
        "--XX-\r\n",
        PART("name=f; filename=\"\xff\"", "") END,
        PART("name=\"\xc0\xae\"", "") END,
        PART("name=f; filename*=UTF-8''%ff", "") END,
        PART("name=f; filename*=UTF-8''%00", "") END,
        PART("name=f; filename*=nothing", "") END,
    };
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        expect_bad(bad[i], strlen(bad[i]));
    static const char with_nul[] = "--XX\r\nContent-Disposition: form-data; name=\"a\0b\"\r\n\r\n";
    expect_bad(with_nul, sizeof with_nul - 1);
}

static void test_long_headers(void **state)
{
    (void)state;
    _cleanup_buffer_ struct buffer text = {0};
    assert_int_equal(buffer_append_text(&text, "--XX\r\nX-Long: "), 0);
    while (text.length < 2 * MAX_PART_HEADER_BYTES)
        assert_int_equal(buffer_append_text(&text, "aaaaaaaaaaaaaaaa"), 0);
    expect_bad(text.data, text.length);
    buffer_clear(&text);
    assert_int_equal(buffer_append_text(&text, "--XX\r\nContent-Disposition: form-data; name="), 0);
    while (text.length < MULTIPART_NAME_SIZE + 64)
        assert_int_equal(buffer_append_text(&text, "aaaaaaaaaaaaaaaa"), 0);
    assert_int_equal(buffer_append_text(&text, "\r\n\r\n"), 0);
    expect_bad(text.data, text.length);
}

/* An end that does not come is seen. */
static void test_cut_short(void **state)
{
    (void)state;
    static const char text[] = PART("name=f; filename=x", "content") "--XX--";
    for (size_t length = 0; length < sizeof text - 1; length++) {
        struct seen seen;
        begin(&seen);
        assert_int_equal(feed(&seen, text, length, length ? length : 1), 0);
        assert_false(multipart_complete(seen.form));
        end(&seen);
    }
}

static void test_stops_for_good(void **state)
{
    (void)state;
    static const char text[] = PART("name=f; filename=x", "12345") END;
    struct seen seen;
    begin(&seen);
    seen.stop_at_data = true;
    ssize_t taken = multipart_feed(seen.form, text, sizeof text - 1);
    assert_true(taken > 0 && (size_t)taken < sizeof text - 1);
    assert_string_equal(buffer_text(&seen.text), "f|x|12345");
    end(&seen);
}

static void test_boundary(void **state)
{
    (void)state;
    char out[MULTIPART_BOUNDARY_SIZE];
    assert_int_equal(multipart_boundary("multipart/form-data; boundary=abc", out), 0);
    assert_string_equal(out, "abc");
    assert_int_equal(multipart_boundary("Multipart/Form-Data;charset=x; Boundary=\"a b\"", out), 0);
    assert_string_equal(out, "a b");
    static const char *const other[] = {"text/plain", "multipart/form-dataX; boundary=a",
                                        "multipart/mixed; boundary=a", ""};
    for (size_t i = 0; i < ARRAY_LENGTH(other); i++)
        assert_int_equal(multipart_boundary(other[i], out), -ENOENT);
    assert_int_equal(multipart_boundary(NULL, out), -ENOENT);
    static const char *const bad[] = {
        "multipart/form-data; boundary", "multipart/form-data; boundary=", "multipart/form-data",
        "multipart/form-data; boundary="
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++)
        assert_true(multipart_boundary(bad[i], out) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),          cmocka_unit_test(test_near_boundaries),
        cmocka_unit_test(test_names),          cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_long_headers),   cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_stops_for_good), cmocka_unit_test(test_boundary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
