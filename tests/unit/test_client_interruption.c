/* Signals of `husk`, and whoever waits for a line meanwhile: command/interruption.h, command/terminal.h. */
#include "command/interruption.h"

#include "command/terminal.h"
#include "unit.h"

/* Nobody writes, and nobody ever will. */
static void wait_for_a_line(void *user)
{
    int number = *(int *)user, ends[2];
    child_check(pipe(ends) == 0 && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    (void)alarm(20);
    interruption_catch();
    (void)raise(number);
    child_check(terminal_read_line(false) == NULL);
    child_check(interruption_signal() == number && interruption_status() == 128 + number);
}

/* One that comes just before the wait is not lost. */
static void test_a_signal_before_the_wait(void **state _unused_)
{
    int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++)
        assert_int_equal(in_child(wait_for_a_line, &numbers[i]), 0);
}

static void read_lines(void *user _unused_)
{
    int ends[2];
    bool stopped;
    child_check(pipe(ends) == 0 && dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    child_check(write(ends[1], "one\n\nlast", 9) == 9 && close(ends[1]) == 0);
    _cleanup_free_ char *one = terminal_read_line(false), *two = terminal_read_line(true);
    _cleanup_free_ char *last = terminal_read_until(-1, &stopped),
                        *none = terminal_read_line(false);
    child_check(one && !strcmp(one, "one") && two && !*two && last && !strcmp(last, "last"));
    child_check(!none && !stopped);
}

static void test_lines(void **state _unused_)
{
    assert_int_equal(in_child(read_lines, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_signal_before_the_wait),
        cmocka_unit_test(test_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
