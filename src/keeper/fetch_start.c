#include "keeper/fetch_start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/log.h"
#include "base/text.h"
#include "husk/fetch_protocol.h"

enum {
    OUT_OF_THE_WAY = 32
};

int fetch_prepare(const char *cache, struct failure *why)
{
    /* Sandboxes may read a wheel whose hash they know, and not look for others. */
    static const struct {
        const char *name;
        mode_t mode;
    } folders[] = {{CACHE_WHEELS, 0711}, {CACHE_NOTES, 0700}, {CACHE_PARTS, 0700}};
    for (size_t i = 0; i < ARRAY_LENGTH(folders); i++) {
        char path[PATH_MAX];
        if (format_text(path, sizeof path, "%s/%s", cache, folders[i].name) < 0)
            return fail(why, ENAMETOOLONG, "use %s", cache);
        if (mkdir(path, folders[i].mode) < 0 && errno != EEXIST)
            return fail(why, errno, "make %s", path);
        if (lchown(path, FETCHER_ID, FETCHER_ID) < 0 || chmod(path, folders[i].mode) < 0)
            return fail(why, errno, "give %s to the fetcher", path);
    }
    return 0;
}

static _noreturn_ void execute(const struct container_host *host, int socket)
{
    sigset_t none;
    char level[12], format[12];
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setsid();
    int fds[] = {[FETCH_SOCKET_FD - FETCH_SOCKET_FD] = socket,
                 [FETCH_FILTER_FD - FETCH_SOCKET_FD] = host->filter_fd};
    int program = fcntl(host->fetcher_program, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
    for (size_t i = 0; i < ARRAY_LENGTH(fds); i++)
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
    for (size_t i = 0; i < ARRAY_LENGTH(fds); i++)
        (void)dup2(fds[i], FETCH_SOCKET_FD + (int)i);
    cloexec_from(FETCH_FILTER_FD + 1);
    (void)snprintf(level, sizeof level, "%d", (int)log_current_level());
    (void)snprintf(format, sizeof format, "%d", (int)log_current_format());
    const char *argv[] = {"husk-fetcher", host->image, host->cache, host->mount_point,
                          level,          format,      NULL};
    const char *environment[] = {NULL};
    (void)syscall(SYS_execveat, program, "", argv, environment, AT_EMPTY_PATH);
    _exit(127);
}

int fetch_start(const struct container_host *host, struct failure *why)
{
    int pair[2];
    if (!host->cache)
        return fail_plain(why, ENOSYS, "this keeper was started without a package cache");
    int r = fetch_prepare(host->cache, why); /* somebody may have emptied it */
    if (r < 0)
        return r;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return fail(why, errno, "make a socket");
    _cleanup_close_ int own = pair[0], other = pair[1];
    struct clone_args arguments = {
        .flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS, .exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid == 0)
        execute(host, other);
    return pid < 0 ? fail(why, errno, "start the fetcher") : TAKE_DESCRIPTOR(own);
}
