/* What `husk repl` shows of a cell: command/repl_display.h. Standard output is a file here, so that a terminal has 80 columns and 24 rows. */
#include "command/repl_display.h"

#include <locale.h>
#include <sys/mman.h>

#include "base/buffer.h"
#include "base/fdio.h"
#include "unit.h"

static int usual, shown;

static void begin(struct display *display)
{
    (void)fflush(stdout);
    usual = dup(STDOUT_FILENO);
    shown = memfd_create("shown", 0);
    assert_true(usual >= 0 && shown >= 0 && dup2(shown, STDOUT_FILENO) >= 0);
    display_init(display, "/nonexistent", IMAGES_NONE);
    display_begin(display, 1);
}

static char *end(void)
{
    char *text = calloc(1, 1 << 20);
    assert_true(dup2(usual, STDOUT_FILENO) >= 0 && text != NULL);
    close_fd(usual);
    assert_true(read_at(shown, text, (1 << 20) - 1, 0) >= 0);
    close_fd(shown);
    return text;
}

static void print(struct display *display, const char *text)
{
    struct husk_event event = {.kind = HUSK_EVENT_STDOUT, .text = {text, strlen(text)}};
    assert_int_equal(display_event(display, &event), 0);
}

static void clear(struct display *display)
{
    assert_int_equal(display_event(display, &(struct husk_event){.kind = HUSK_EVENT_CLEAR}), 0);
}

/* What was shown is taken back, and no more. */
static void takes_back(void **state _unused_)
{
    struct display display;
    begin(&display);
    print(&display, "one\ntwo\n");
    clear(&display);
    _cleanup_free_ char *text = end();
    assert_string_equal(text, "one\ntwo\n\r\033[2A\033[J");
}

/* Code cannot make rows count that a terminal has not: it would take back what stands above it. */
static void counts_no_row_too_many(void **state _unused_)
{
    static const char *const tricks[] = {
        "\t\t\t\t\t\t\t\t\t\ta\r",
        "01234567890123456789012345678901234567890123456789012345678901234567890123456789\bab\r",
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678\ta\r",
    };
    for (size_t i = 0; i < ARRAY_LENGTH(tricks); i++) {
        struct display display;
        begin(&display);
        for (int j = 0; j < 20; j++)
            print(&display, tricks[i]);
        clear(&display);
        _cleanup_free_ char *text = end();
        assert_non_null(strstr(text, "\r\033[J"));
        assert_null(strstr(text, "A\033[J"));
    }
}

static void colours_end(void **state _unused_)
{
    struct display display;
    char sentence[1000];
    memset(sentence, 'x', sizeof sentence - 1);
    sentence[sizeof sentence - 1] = '\0';
    begin(&display);
    display.colours = true;
    display_note(&display, "%s", sentence);
    _cleanup_free_ char *text = end();
    assert_non_null(strstr(text, sentence));
    assert_string_equal(text + strlen(text) - 5, "\033[0m\n");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_back),
        cmocka_unit_test(counts_no_row_too_many),
        cmocka_unit_test(colours_end),
    };
    (void)setlocale(LC_ALL, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
