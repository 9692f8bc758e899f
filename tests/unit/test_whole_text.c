/* The file that has all of a text. */
#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "shim/whole_text.h"

struct fixture {
    char path[32];
    int home;
    struct transcript transcript;
    struct whole_text whole;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    make_directory(fixture->path);
    fixture->home = open(fixture->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    transcript_init(&fixture->transcript, 2000);
    whole_text_init(&fixture->whole, fixture->home, "text");
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[64];
    (void)whole_text_end(&fixture->whole);
    transcript_free(&fixture->transcript);
    close(fixture->home);
    (void)snprintf(command, sizeof command, "rm -rf %s", fixture->path);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

static void add(struct fixture *fixture, char letter, size_t count)
{
    char text[5000];
    memset(text, letter, count);
    whole_text_add(&fixture->whole, &fixture->transcript, text, count);
    transcript_append(&fixture->transcript, text, count);
}

static void short_text_makes_no_file(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 10; i++)
        add(fixture, 'a', 100);
    assert_null(whole_text_end(&fixture->whole));
    assert_int_equal(faccessat(fixture->home, ".husk", F_OK, 0), -1);
}

/* From the first byte on, although the file came late. */
static void all_of_it(void **state)
{
    struct fixture *fixture = *state;
    for (char letter = 'a'; letter <= 'z'; letter++)
        add(fixture, letter, 301);
    assert_true(transcript_is_cut(&fixture->transcript));
    const char *path = whole_text_end(&fixture->whole);
    assert_string_equal(path, ".husk/text");
    int fd = openat(fixture->home, path, O_RDONLY);
    char text[26 * 301 + 1];
    assert_int_equal(read(fd, text, sizeof text), 26 * 301);
    for (int i = 0; i < 26 * 301; i++)
        assert_int_equal(text[i], 'a' + i / 301);
    close(fd);
}

/* Whatever is left out of the transcript is in the file, be the pieces as they may. */
static void nothing_is_left_out_before_there_is_a_file(void **state)
{
    struct fixture *fixture = *state;
    while (fixture->whole.file < 0) {
        assert_false(transcript_is_cut(&fixture->transcript));
        add(fixture, 'x', 7);
    }
}

static void no_place(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(symlinkat("/tmp", fixture->home, ".husk"), 0);
    add(fixture, 'x', 4000);
    assert_true(fixture->whole.given_up);
    assert_null(whole_text_end(&fixture->whole));
}

static void name_is_taken(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(mkdirat(fixture->home, ".husk", 0700), 0);
    assert_int_equal(symlinkat("/tmp/husk-must-not-appear", fixture->home, ".husk/text"), 0);
    add(fixture, 'x', 4000);
    assert_null(whole_text_end(&fixture->whole));
    assert_int_equal(access("/tmp/husk-must-not-appear", F_OK), -1);
}

static void too_large(void **state)
{
    struct fixture *fixture = *state;
    int before = open_descriptors();
    add(fixture, 'x', 4000);
    fixture->whole.limit = 5000;
    add(fixture, 'x', 1000);
    assert_int_equal(faccessat(fixture->home, ".husk/text", F_OK, 0), 0);
    add(fixture, 'x', 1);
    assert_int_equal(faccessat(fixture->home, ".husk/text", F_OK, 0), -1);
    add(fixture, 'x', 4000);
    assert_null(whole_text_end(&fixture->whole));
    assert_int_equal(open_descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(short_text_makes_no_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_of_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_left_out_before_there_is_a_file, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(no_place, set_up, tear_down),
        cmocka_unit_test_setup_teardown(name_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_large, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
