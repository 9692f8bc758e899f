/* Errors: functions return 0 or -errno; those that can say more fill a `struct failure` that lives
 * on the caller's stack, so that failing never allocates. `why` may be NULL unless said otherwise.
 */
#pragma once

#include "base/attributes.h"

struct failure {
    int code; /* positive errno */
    char text[240];
};

/* Record the reason and return -code, so that `return fail(why, errno, "open %s", path);` reads
 * well. The text of the errno is added: "open /x: Permission denied". code may be given as errno or
 * -errno. */
int fail(struct failure *why, int code, const char *format, ...) _printf_(3, 4);

/* The same, with a sentence that already says everything: no errno text is added. */
int fail_plain(struct failure *why, int code, const char *format, ...) _printf_(3, 4);

/* For our own mistakes: log and abort, in release builds too. A half-dead sandbox server is worse
 * than a restart. Never on data of a peer. */
#define husk_assert(condition)                                                                     \
    ((condition) ? (void)0 : assert_failed(#condition, __FILE__, __LINE__))
void assert_failed(const char *condition, const char *file, int line) _noreturn_;
