#include "keeper/shim_start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/log.h"
#include "base/text.h"
#include "husk/shim_protocol.h"

enum {
    SHIM_DESCRIPTORS = SHIM_NAMESPACE_FD - SHIM_LISTEN_FD + 1,
    OUT_OF_THE_WAY = 32
};

static int socket_path(const struct container_host *host, struct id id, char *path, size_t size)
{
    char text[ID_TEXT_SIZE];
    id_format(id, text);
    return format_text(path, size, "%s/%s/%s", host->state, SHIM_SOCKET_DIR, text);
}

static int listen_for_huskd(const struct container_host *host, struct id id, struct failure *why)
{
    char path[PATH_MAX];
    int r = socket_path(host, id, path, sizeof path);
    _cleanup_close_ int fd = r < 0 ? r : unix_listen(path, SOCK_STREAM);
    if (fd < 0)
        return fail(why, fd, "listen on %s", path);
    if (chown(path, host->client, host->client) < 0 || chmod(path, 0600) < 0)
        return fail(why, errno, "give %s to huskd", path);
    return TAKE_DESCRIPTOR(fd);
}

void shim_socket_remove(const struct container_host *host, struct id id)
{
    char path[PATH_MAX];
    if (socket_path(host, id, path, sizeof path) >= 0)
        (void)unlink(path);
}

/* The child. Descriptors go to their agreed places, everything else closes on exec. */
static void execute(const struct container_host *host, const struct shim_plan *plan, int *fds)
{
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setsid();
    fds[SHIM_STATUS_FD - SHIM_LISTEN_FD] = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    int program = fcntl(host->shim_program, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
    for (int i = 0; i < SHIM_DESCRIPTORS; i++)
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
    for (int i = 0; i < SHIM_DESCRIPTORS; i++)
        (void)dup2(fds[i], SHIM_LISTEN_FD + i);
    cloexec_from(SHIM_NAMESPACE_FD + 1);
    char id[ID_TEXT_SIZE], uid[12], level[12], format[12];
    id_format(plan->id, id);
    (void)snprintf(uid, sizeof uid, "%u", plan->uid);
    (void)snprintf(level, sizeof level, "%d", (int)log_current_level());
    (void)snprintf(format, sizeof format, "%d", (int)log_current_format());
    const char *argv[] = {"husk-shim", id, uid, level, format, NULL};
    const char *environment[] = {NULL};
    (void)syscall(SYS_execveat, program, "", argv, environment, AT_EMPTY_PATH);
    _exit(127);
}

int shim_start(const struct container_host *host, const struct shim_plan *plan, int *ret_pidfd,
               struct failure *why)
{
    _cleanup_close_ int listening = listen_for_huskd(host, plan->id, why);
    if (listening < 0)
        return listening;
    _cleanup_close_ int run =
        openat(plan->storage, "run", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (run < 0)
        return fail(why, errno, "open the folder of the ipc sockets");
    _cleanup_close_ int home =
        openat(plan->storage, "home", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (home < 0)
        return fail(why, errno, "open the folder of the sandbox's files");
    _cleanup_close_ int counter = cgroup_open_oom_counter(plan->cgroup);
    if (counter < 0)
        return fail(why, counter, "open the out-of-memory counter");
    int fds[SHIM_DESCRIPTORS] = {[SHIM_LISTEN_FD - SHIM_LISTEN_FD] = listening,
                                 [SHIM_INIT_FD - SHIM_LISTEN_FD] = plan->init_socket,
                                 [SHIM_FORK_FD - SHIM_LISTEN_FD] = plan->forks,
                                 [SHIM_REPORT_FD - SHIM_LISTEN_FD] = plan->report,
                                 [SHIM_RUN_FD - SHIM_LISTEN_FD] = run,
                                 [SHIM_HOME_FD - SHIM_LISTEN_FD] = home,
                                 [SHIM_OOM_FD - SHIM_LISTEN_FD] = counter,
                                 [SHIM_FILTER_FD - SHIM_LISTEN_FD] = host->filter_fd,
                                 [SHIM_NAMESPACE_FD - SHIM_LISTEN_FD] = plan->init_pidfd};
    struct clone_args arguments = {
        .flags = CLONE_PIDFD, .pidfd = (uintptr_t)ret_pidfd, .exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid == 0)
        execute(host, plan, fds);
    return pid < 0 ? fail(why, errno, "start the shim") : 0;
}
