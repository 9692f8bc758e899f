/* What the unit tests share: cmocka, temporary directories, counting descriptors, and children.
 *
 * A child must not use cmocka's assertions, which jump back into the copy of the runner that it is:
 * it uses child_check(), and the parent asserts on its wait status. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* base/failure.h has a function of this name. */
#undef fail
#undef fail_msg
#define fail_msg(...)                                                                              \
    (print_error("ERROR: " __VA_ARGS__), print_error("\n"), _fail(__FILE__, __LINE__))

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attributes.h"

/* The sanitizer ends the program when too much memory is asked for; the tests want malloc's NULL. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

#define child_check(condition)                                                                     \
    ((condition) ? (void)0 : child_failed(#condition, __FILE__, __LINE__))

_unused_ static _noreturn_ void child_failed(const char *condition, const char *file, int line)
{
    (void)dprintf(STDERR_FILENO, "child: %s does not hold at %s:%d (errno: %s)\n", condition, file,
                  line, strerror(errno));
    _exit(1);
}

/* Fork; the child runs `body` and exits with 0 if it comes back from it. */
_unused_ static pid_t start_child(void (*body)(void *), void *user)
{
    static const int caught_by_cmocka[] = {SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS};
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    for (size_t i = 0; i < ARRAY_LENGTH(caught_by_cmocka); i++)
        (void)signal(caught_by_cmocka[i], SIG_DFL);
    body(user);
    _exit(0);
}

/* The wait status of a child that ran `body`; 0 if all is well. */
_unused_ static int in_child(void (*body)(void *), void *user)
{
    pid_t pid = start_child(body, user);
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* Descriptors this process has open. */
_unused_ static int open_descriptors(void)
{
    DIR *entries = opendir("/proc/self/fd");
    assert_non_null(entries);
    int count = 0;
    while (readdir(entries))
        count++;
    closedir(entries);
    return count;
}

/* A new directory below /tmp; `path` has room for 32 bytes. The test removes it. */
_unused_ static void make_directory(char path[32])
{
    (void)snprintf(path, 32, "/tmp/husk-unit-XXXXXX");
    assert_non_null(mkdtemp(path));
}

/* A descriptor of a new file without name that holds these bytes, read from the start. */
_unused_ static int file_with(const void *data, size_t length)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, length, file), length);
    assert_int_equal(fflush(file), 0);
    int fd = dup(fileno(file));
    assert_true(fd >= 0);
    (void)fclose(file);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}
