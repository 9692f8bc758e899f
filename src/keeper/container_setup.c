#include "keeper/container_setup.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdio.h"
#include "husk/confine.h"
#include "husk/init_protocol.h"
#include "husk/limits.h"

static const char host_name[] = "husk";

/* ipykernel binds to the loopback address for the output of forked children. */
static int raise_loopback(struct failure *why)
{
    _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        return fail(why, errno, "raise the loopback interface");
    return 0;
}

/* Those of all other sandboxes came along with the fork. Closed now, and not by the execution of init: with some six hundred
 * sandboxes they are more than a confined process may have. */
static void drop_descriptors(const struct setup *setup)
{
    int kept[5 + CONTROLLER_COUNT] = {setup->rootfs.storage, setup->filter_fd, setup->init_program,
                                      setup->init_socket, setup->report};
    memcpy(kept + 5, setup->cgroup.directories, sizeof setup->cgroup.directories);
    close_others(STDERR_FILENO + 1, kept, ARRAY_LENGTH(kept));
}

/* Every namespace but the user namespace belongs to P, so nothing inside ever holds a capability
 * over them. */
static int build(const struct setup *setup, struct failure *why)
{
    int r = cgroup_join(&setup->cgroup, why);
    if (r < 0)
        return r;
    if (unshare(CLONE_NEWCGROUP) < 0)
        return fail(why, errno, "make a cgroup namespace");
    r = rootfs_enter(&setup->rootfs, why);
    if (r >= 0)
        r = raise_loopback(why);
    if (r < 0)
        return r;
    if (sethostname(host_name, strlen(host_name)) < 0)
        return fail(why, errno, "set the host name");
    return 0;
}

/* Some quotas are counted for all sandboxes together, since one user made all their namespaces. Each gets a part of them; kernels that
 * cannot do that leave it as it was. `settings` is /proc/sys: which namespace's they are is decided when a file is opened. */
static void set_quotas(int settings)
{
    static const struct {
        const char *file;
        unsigned value;
    } quotas[] = {{"user/max_inotify_instances", MAX_SANDBOX_INOTIFY_INSTANCES},
                  {"user/max_inotify_watches", MAX_SANDBOX_INOTIFY_WATCHES}};
    for (size_t i = 0; i < ARRAY_LENGTH(quotas); i++) {
        char text[12];
        (void)snprintf(text, sizeof text, "%u", quotas[i].value);
        (void)write_file_at(settings, quotas[i].file, text);
    }
}

/* Into the user namespace with one id, which the keeper maps. */
static int enter_user_namespace(const struct setup *setup, int settings, struct failure *why)
{
    struct setup_report request = {0};
    char byte;
    if (setgroups(0, NULL) < 0)
        return fail(why, errno, "drop groups");
    if (unshare(CLONE_NEWUSER) < 0)
        return fail(why, errno, "make a user namespace");
    set_quotas(settings);
    /* New credentials make a process undumpable, and then its id map cannot be written. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        return fail(why, errno, "stay dumpable");
    if (write_all(setup->report, &request, sizeof request) < 0 ||
        read_exactly(setup->report, &byte, 1) < 0)
        return fail(why, EPIPE, "ask for the id map");
    return 0;
}

/* Standard streams lead nowhere; the socket to the shim is the only other thing init gets. */
static int execute_init(const struct setup *setup, struct failure *why)
{
    _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        return fail(why, errno, "open /dev/null");
    int program = fcntl(setup->init_program, F_DUPFD_CLOEXEC, INIT_SOCKET_FD + 1);
    int report = fcntl(setup->report, F_DUPFD_CLOEXEC, INIT_SOCKET_FD + 1);
    int socket = fcntl(setup->init_socket, F_DUPFD_CLOEXEC, INIT_SOCKET_FD + 1);
    for (int fd = 0; fd < INIT_SOCKET_FD; fd++) {
        if (dup2(null, fd) < 0)
            return fail(why, errno, "set standard streams");
    }
    if (program < 0 || report < 0 || socket < 0 || dup2(socket, INIT_SOCKET_FD) < 0)
        return fail(why, errno, "pass descriptors");
    cloexec_from(INIT_SOCKET_FD + 1);
    const char *argv[] = {"husk-init", NULL};
    const char *environment[] = {NULL};
    (void)syscall(SYS_execveat, program, "", argv, environment, AT_EMPTY_PATH);
    struct setup_report last = {.code = errno};
    (void)snprintf(last.text, sizeof last.text, "execute init: %s", strerror(errno));
    (void)write_all(report, &last, sizeof last);
    _exit(1);
}

static void run(const struct setup *setup)
{
    struct failure why = {0};
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    /* Until init runs, the end of the keeper ends this too: nobody else would know of it. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setsid();
    umask(022);
    drop_descriptors(setup);
    /* P's, where it may be written to; the container's own will not be. */
    int settings = open("/proc/sys", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = build(setup, &why);
    if (r >= 0)
        r = enter_user_namespace(setup, settings, &why);
    close_fd(settings);
    if (r >= 0)
        r = confine_inside(setup->filter_fd, &why);
    if (r >= 0)
        (void)execute_init(setup, &why);
    struct setup_report report = {.code = why.code ? why.code : EINVAL};
    memcpy(report.text, why.text, sizeof report.text);
    (void)write_all(setup->report, &report, sizeof report);
    _exit(1);
}

pid_t setup_fork(const struct setup *setup, int *pidfd, struct failure *why)
{
    struct clone_args arguments = {
        .flags =
            CLONE_PIDFD | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS,
        .pidfd = (uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
    };
    pid_t pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid == 0)
        run(setup);
    return pid < 0 ? fail(why, errno, "make the namespaces of a container") : pid;
}

int setup_write_map(pid_t pid, uid_t uid, struct failure *why)
{
    char line[64], path[64];
    (void)snprintf(line, sizeof line, "%d %u 1\n", SANDBOX_USER_ID, uid);
    const struct {
        const char *file, *text;
    } writes[] = {{"setgroups", "deny"}, {"uid_map", line}, {"gid_map", line}};
    for (size_t i = 0; i < ARRAY_LENGTH(writes); i++) {
        (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, writes[i].file);
        int r = write_file_at(AT_FDCWD, path, writes[i].text);
        if (r < 0)
            return fail(why, r, "write %s", path);
    }
    return 0;
}
