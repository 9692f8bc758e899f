#include "keeper/porters.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "husk/porter_protocol.h"

enum {
    OUT_OF_THE_WAY = 32,
    PORTER_DESCRIPTORS = PORTER_NAMESPACE_FD - PORTER_SOCKET_FD + 1
};

struct porter {
    struct porters *porters;
    struct porter *next;
    int pidfd;
    struct source *source;
};

struct porters {
    struct container_host *host;
    struct porter *first;
    unsigned count;
    void (*ended)(void *user);
    void *user;
};

struct porters *porters_new(struct container_host *host, void (*ended)(void *user), void *user)
{
    struct porters *porters = must_alloc(sizeof *porters);
    *porters = (struct porters){.host = host, .ended = ended, .user = user};
    return porters;
}

struct porters *porters_free(struct porters *porters)
{
    husk_assert(porters->count == 0);
    free(porters);
    return NULL;
}

unsigned porters_count(const struct porters *porters)
{
    return porters->count;
}

static void kill_porter(const struct porter *porter)
{
    (void)syscall(SYS_pidfd_send_signal, porter->pidfd, SIGKILL, NULL, 0);
}

void porters_end(struct porters *porters)
{
    for (const struct porter *porter = porters->first; porter; porter = porter->next)
        kill_porter(porter);
}

static void porter_ended(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct porter *porter = user;
    struct porters *porters = porter->porters;
    struct porter **at = &porters->first;
    while (*at != porter)
        at = &(*at)->next;
    *at = porter->next;
    porters->count--;
    porters->host->porters--;
    source_remove(porter->source);
    close_fd(porter->pidfd);
    free(porter);
    porters->ended(porters->user);
}

/* The private folder, beside `home`: made with the first job, since sandboxes of an earlier Husk have none. */
static int open_incoming(const struct porter_plan *plan)
{
    if (mkdirat(plan->storage, "incoming", 0700) == 0 &&
        fchownat(plan->storage, "incoming", plan->uid, plan->uid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    int fd = openat(plan->storage, "incoming", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? -errno : fd;
}

/* The child. In the cgroup before anything of a sandbox is touched; descriptors to their places, the rest closes on exec. */
static void execute(const struct container_host *host, const struct porter_plan *plan, int *fds)
{
    sigset_t none;
    struct failure why = {0};
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setsid();
    if (cgroup_join(plan->cgroup, &why) < 0) {
        log_event(LOG_ERROR, "a porter cannot be started", "reason", why.text, NULL);
        _exit(126);
    }
    fds[PORTER_STATUS_FD - PORTER_SOCKET_FD] = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (plan->archive < 0)
        fds[PORTER_ARCHIVE_FD - PORTER_SOCKET_FD] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int program = fcntl(host->porter_program, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
    for (int i = 0; i < PORTER_DESCRIPTORS; i++)
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
    for (int i = 0; i < PORTER_DESCRIPTORS; i++)
        (void)dup2(fds[i], PORTER_SOCKET_FD + i);
    cloexec_from(PORTER_NAMESPACE_FD + 1);
    char id[ID_TEXT_SIZE], uid[12], level[12], format[12];
    id_format(plan->id, id);
    (void)snprintf(uid, sizeof uid, "%u", plan->uid);
    (void)snprintf(level, sizeof level, "%d", (int)log_current_level());
    (void)snprintf(format, sizeof format, "%d", (int)log_current_format());
    const char *argv[] = {"husk-porter", id, uid, level, format, NULL};
    const char *environment[] = {NULL};
    (void)syscall(SYS_execveat, program, "", argv, environment, AT_EMPTY_PATH);
    _exit(127);
}

/* Without a way to see its end a porter is not kept. */
static int watch(struct porters *porters, int pidfd)
{
    struct porter *porter = must_alloc(sizeof *porter);
    *porter = (struct porter){.porters = porters, .next = porters->first, .pidfd = pidfd};
    porter->source = source_add(porters->host->loop, pidfd, EPOLLIN, porter_ended, porter);
    if (!porter->source) {
        int r = -errno;
        kill_porter(porter);
        close_fd(pidfd);
        free(porter);
        return r;
    }
    porters->first = porter;
    porters->count++;
    porters->host->porters++;
    return 0;
}

int porters_start(struct porters *porters, const struct porter_plan *plan)
{
    if (porters->count >= MAX_PORTERS_OF_SANDBOX)
        return -EBUSY;
    if (porters->host->porters >= MAX_PORTERS)
        return -EUSERS;
    _cleanup_close_ int incoming = open_incoming(plan);
    if (incoming < 0)
        return incoming;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    _cleanup_close_ int own = pair[0], other = pair[1];
    int fds[PORTER_DESCRIPTORS] = {
        [PORTER_FOLDER_FD - PORTER_SOCKET_FD] = plan->folder,
        [PORTER_HOME_FD - PORTER_SOCKET_FD] = plan->home,
        [PORTER_INCOMING_FD - PORTER_SOCKET_FD] = incoming,
        [PORTER_ARCHIVE_FD - PORTER_SOCKET_FD] = plan->archive,
        [PORTER_FILTER_FD - PORTER_SOCKET_FD] = porters->host->filter_fd,
        [PORTER_NAMESPACE_FD - PORTER_SOCKET_FD] = plan->init_pidfd,
    };
    fds[0] = other;
    int pidfd = -1;
    struct clone_args arguments = {
        .flags = CLONE_PIDFD, .pidfd = (uintptr_t)&pidfd, .exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid == 0)
        execute(porters->host, plan, fds);
    if (pid < 0)
        return -errno;
    int r = watch(porters, pidfd);
    return r < 0 ? r : TAKE_DESCRIPTOR(own);
}
