#include "fetcher/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "husk/fetch_protocol.h"
#include "husk/limits.h"

static void run_child(const struct program *program, int input, int errors)
{
    struct rlimit largest = {program->largest_file, program->largest_file};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)dup2(input >= 0 ? input : null, STDIN_FILENO);
    (void)dup2(null, STDOUT_FILENO);
    (void)dup2(errors, STDERR_FILENO);
    cloexec_from(STDERR_FILENO + 1);
    (void)setrlimit(RLIMIT_FSIZE, &largest);
    (void)execve(program->arguments[0], (char *const *)(uintptr_t)program->arguments,
                 (char *const *)(uintptr_t)program->environment);
    _exit(127);
}

/* What comes on the pipe; false at its end. */
static bool collect(int fd, struct buffer *errors)
{
    char block[4 * KIB];
    ssize_t length = read_some(fd, block, sizeof block);
    if (length > 0)
        (void)buffer_append(errors, block, (size_t)length);
    return length > 0;
}

/* Until the pipe of its errors ends, which is when it and its children have ended. */
static int wait_for(const struct program *program, pid_t child, int errors)
{
    bool late = false, unwanted = false;
    while (!unwanted) {
        struct pollfd watched[] = {{.fd = errors, .events = POLLIN},
                                   {.fd = FETCH_SOCKET_FD, .events = POLLRDHUP}};
        uint64_t now = now_ms();
        int left = late || now >= program->deadline_ms ? 0 : (int)(program->deadline_ms - now);
        int r = poll(watched, 2, late ? -1 : left);
        unwanted = watched[1].revents != 0;
        if ((r == 0 && !late) || unwanted) {
            late = !unwanted;
            (void)kill(child, SIGKILL);
        }
        if (!unwanted && r > 0 && watched[0].revents && !collect(errors, program->errors))
            break;
    }
    int status;
    if (waitpid(child, &status, 0) < 0)
        return -errno;
    return unwanted ? -EPIPE : late ? -ETIMEDOUT : status;
}

int program_run(const struct program *program, struct failure *why)
{
    int errors[2], input[2] = {-1, -1};
    if (pipe2(errors, O_CLOEXEC) < 0 || (program->input && pipe2(input, O_CLOEXEC) < 0))
        return fail(why, errno, "make a pipe");
    _cleanup_close_ int reading = errors[0];
    pid_t child = fork();
    if (child == 0)
        run_child(program, input[0], errors[1]);
    close(errors[1]);
    (void)close_fd(input[0]);
    if (program->input && child > 0)
        (void)write_all(input[1], program->input, strlen(program->input));
    (void)close_fd(input[1]);
    if (child < 0)
        return fail(why, errno, "start %s", program->arguments[0]);
    int r = wait_for(program, child, reading);
    if (r == -EPIPE)
        return fail_plain(why, EPIPE, "nobody wants it any more");
    return r == -ETIMEDOUT ? fail_plain(why, ETIMEDOUT, "it took too long") : r;
}
