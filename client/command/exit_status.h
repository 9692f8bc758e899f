/* The exit statuses of `husk`: a part of its interface (husk(1)). The program that `husk run`, `exec` and `sh` run has its own. */
#pragma once

struct husk_error;
struct husk_result;

enum exit_status {
    EXIT_GOOD = 0,
    EXIT_CODE_FAILED = 1,   /* the code raised, an install failed, the service is not healthy */
    EXIT_USAGE = 2,         /* the command line makes no sense */
    EXIT_REFUSED = 3,       /* the service said no: no such sandbox, at capacity, … */
    EXIT_UNREACHABLE = 4,   /* there is no service, or the connection broke */
    EXIT_LOCAL = 5,         /* a file of this machine cannot be read or written; no memory */
    EXIT_TIMEOUT = 124,     /* the code ran out of time, as timeout(1) says it */
    EXIT_INTERRUPTED = 130, /* by Ctrl-C, as a shell says it */
    EXIT_DIED = 137         /* the kernel died, or was killed for its memory */
};

/* Say on standard error what went wrong, and what that makes the exit status. */
enum exit_status exit_with_error(const struct husk_error *error);
/* What a result makes it: a command's own exit code, else by its status. SystemExit(n) of code is n. */
int exit_of_result(const struct husk_result *result);
