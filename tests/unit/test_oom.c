#include "shim/oom.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/attributes.h"

static void texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t kills;
    } cases[] = {
        {"", 0},
        {"low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 9\n", 2}, /* version 2 */
        {"oom_kill_disable 0\nunder_oom 1\noom_kill 7\n", 7},                /* version 1 */
        {"oom_kill_disable 5\nunder_oom 1\n", 0},
        {"oom_kill 41", 41},
        {"oom_kill\n", 0},
        {"\n\noom_kill x\n", 0},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_int_equal(oom_kills_in(cases[i].text), cases[i].kills);
}

static void read_anew(void **state)
{
    (void)state;
    int fd = memfd_create("events", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(oom_kills(fd), 0);
    assert_true(dprintf(fd, "oom 0\noom_kill 1\n") > 0);
    assert_int_equal(oom_kills(fd), 1);
    assert_true(pwrite(fd, "oom 0\noom_kill 5\n", 17, 0) == 17);
    assert_int_equal(oom_kills(fd), 5);
    close(fd);
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(oom_kills(fd), 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(read_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
