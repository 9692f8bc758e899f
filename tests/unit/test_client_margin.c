/* The margin of a cell's lines: what keys do to a shown text is put right, whatever it is. */
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "command/repl_margin.h"
#include "unit.h"

enum {
    WIDTH = 8
};

static struct margin margin;

static int set_up(void **state)
{
    (void)state;
    setlocale(LC_CTYPE, "C.UTF-8");
    margin_continue(&margin, WIDTH);
    return 0;
}

static wchar_t *shown_of(const wchar_t *text)
{
    wchar_t *shown = margin_add(&margin, text);
    assert_non_null(shown);
    return shown;
}

static void check_text(const wchar_t *shown, const wchar_t *expected)
{
    _cleanup_free_ wchar_t *text = margin_strip(shown, wcslen(shown));
    assert_non_null(text);
    assert_int_equal(wcscmp(text, expected), 0);
}

static void places(void **state)
{
    (void)state;
    _cleanup_free_ wchar_t *shown = shown_of(L"ab\n中d");
    assert_int_equal(wcslen(shown), 5 + WIDTH);
    check_text(shown, L"ab\n中d");
    /* Behind the line break is behind the margin. */
    static const size_t expected[] = {0, 1, 2, 3 + WIDTH, 4 + WIDTH, 5 + WIDTH};
    for (size_t i = 0; i < ARRAY_LENGTH(expected); i++) {
        assert_int_equal(margin_find(shown, wcslen(shown), i), expected[i]);
        assert_int_equal(margin_count(shown, expected[i]), i);
    }
}

static void what_is_sound_stays(void **state)
{
    (void)state;
    _cleanup_free_ wchar_t *shown = shown_of(L"if x:\n    y\n");
    _cleanup_free_ wchar_t *repaired = NULL;
    size_t cursor = wcslen(shown);
    assert_false(margin_repair(&margin, shown, 0, &cursor, &repaired));
    assert_null(repaired);
    assert_int_equal(cursor, wcslen(shown));
}

static void a_cursor_goes_on(void **state)
{
    (void)state;
    _cleanup_free_ wchar_t *shown = shown_of(L"ab\ncd");
    _cleanup_free_ wchar_t *repaired = NULL;
    size_t cursor = 3; /* to the right, from before the line break */
    assert_true(margin_repair(&margin, shown, 2, &cursor, &repaired));
    assert_int_equal(cursor, 3 + WIDTH);
    cursor = 3 + WIDTH - 1; /* to the left, from the second line's begin */
    assert_true(margin_repair(&margin, shown, 3 + WIDTH, &cursor, &repaired));
    assert_int_equal(cursor, 2);
    assert_null(repaired);
}

/* Any one character is taken out, as by a key, with the cursor there: either it was a character of the text, or lines are joined. */
static void nibbles(void **state)
{
    (void)state;
    _cleanup_free_ wchar_t *shown = shown_of(L"ab\ncd\ne");
    size_t length = wcslen(shown);
    for (size_t i = 0; i < length; i++) {
        _cleanup_free_ wchar_t *bitten = wcsdup(shown);
        _cleanup_free_ wchar_t *repaired = NULL;
        wmemmove(bitten + i, bitten + i + 1, length - i);
        size_t cursor = i;
        bool changed = margin_repair(&margin, bitten, i + 1, &cursor, &repaired);
        const wchar_t *after = repaired ? repaired : bitten;
        _cleanup_free_ wchar_t *text = margin_strip(after, wcslen(after));
        _cleanup_free_ wchar_t *whole = shown_of(text);
        assert_int_equal(wcscmp(after, whole), 0);
        assert_true(cursor <= wcslen(after));
        bool of_text = shown[i] != L'\n' && (shown[i] < MARGIN_FIRST || shown[i] > MARGIN_LAST);
        assert_int_equal(wcslen(text), 6);
        assert_int_equal(changed && repaired, !of_text);
    }
}

static void show_in_pieces(const char *bytes, size_t length, size_t step, bool colours, char *out)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    FILE *stream = margin_stream(ends[1], colours);
    assert_non_null(stream);
    for (size_t i = 0; i < length; i += step) {
        fwrite(bytes + i, 1, length - i < step ? length - i : step, stream);
        fflush(stream);
    }
    fclose(stream);
    close_fd(ends[1]);
    ssize_t got = read_some(ends[0], out, 255);
    assert_true(got >= 0);
    out[got] = 0;
    close_fd(ends[0]);
}

static void streams(void **state)
{
    (void)state;
    char bytes[256], out[256];
    struct margin prompt;
    margin_set(&prompt, "In [1]: ");
    size_t length = wcstombs(bytes, prompt.text, sizeof bytes);
    length += (size_t)sprintf(bytes + length, "中\xf4\x8f\xbf\xbf");
    show_in_pieces(bytes, length, length, true, out);
    assert_string_equal(out, "\033[32mIn [1]: \033[0m中\xf4\x8f\xbf\xbf");
    for (size_t step = 1; step < length; step++) {
        show_in_pieces(bytes, length, step, false, out);
        assert_string_equal(out, "In [1]: 中\xf4\x8f\xbf\xbf");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(places, set_up),
        cmocka_unit_test_setup(what_is_sound_stays, set_up),
        cmocka_unit_test_setup(a_cursor_goes_on, set_up),
        cmocka_unit_test_setup(nibbles, set_up),
        cmocka_unit_test_setup(streams, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
