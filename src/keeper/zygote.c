#include "keeper/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "husk/zygote_protocol.h"
#include "keeper/rootfs.h"
#include "keeper/storage.h"

enum {
    STORAGE_BYTES = 64 * MIB, /* what imports write: caches, if anything */
    FIRST_RESTART_MS = 1000,
    SLOWEST_RESTART_MS = 60 * 1000,
    OUT_OF_THE_WAY = 32,
    MAX_VARIABLES = 256,
    ENVIRONMENT_BYTES = 16 * KIB,
};

enum zygote_state {
    ZYGOTE_DOWN,
    ZYGOTE_STARTING,
    ZYGOTE_READY,
};

struct zygote {
    struct container_host *host;
    enum zygote_state state;
    int socket;
    struct source *source;
    struct timer *restart;
    unsigned restart_ms;
};

/* --- its process ---------------------------------------------------------------------------- */

/* The image's environment, with one thread for linear algebra: a process with more cannot be forked. Cut in place. */
static char **read_environment(void)
{
    static char text[ENVIRONMENT_BYTES];
    static char *list[MAX_VARIABLES];
    static char threads[] = "OPENBLAS_NUM_THREADS=1", more_threads[] = "OMP_NUM_THREADS=1";
    size_t count = 0;
    if (read_file_at(AT_FDCWD, "/opt/husk/environment", text, sizeof text) < 0)
        return NULL;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        if (strchr(line, '=') && line[0] != '#' && count < MAX_VARIABLES - 3)
            list[count++] = line;
    }
    list[count++] = threads;
    list[count++] = more_threads;
    list[count] = NULL;
    return list;
}

static int place_descriptors(const struct container_host *host, int socket)
{
    int fds[] = {[ZYGOTE_SOCKET_FD - ZYGOTE_SOCKET_FD] = socket,
                 [ZYGOTE_LIBRARY_FD - ZYGOTE_SOCKET_FD] = host->zygote_library,
                 [ZYGOTE_FILTER_FD - ZYGOTE_SOCKET_FD] = host->filter_fd};
    for (size_t i = 0; i < ARRAY_LENGTH(fds); i++)
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
    for (size_t i = 0; i < ARRAY_LENGTH(fds); i++) {
        if (fds[i] < 0 || dup2(fds[i], ZYGOTE_SOCKET_FD + (int)i) < 0)
            return -errno;
    }
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDIN_FILENO) < 0)
        return -errno;
    cloexec_from(ZYGOTE_FILTER_FD + 1);
    return 0;
}

/* The child, in mount, network, ipc and uts namespaces of its own. Its tree is that of a container, so that every path means the
 * same in the zygote and in its children. */
static void run(const struct container_host *host, int storage, int socket)
{
    struct failure why = {0};
    struct rootfs rootfs = {
        .image = host->image, .mount_point = host->mount_point, .storage = storage};
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)setsid();
    umask(022);
    int r = rootfs_enter(&rootfs, &why);
    char **environment = r >= 0 ? read_environment() : NULL;
    if (r >= 0 && !environment)
        r = fail(&why, EINVAL, "read the image's environment");
    if (r >= 0 && place_descriptors(host, socket) < 0)
        r = fail(&why, errno, "pass descriptors");
    if (r >= 0) {
        const char *argv[] = {"/opt/venv/bin/python", "-P", "/opt/husk/zygote.py", NULL};
        (void)execve(argv[0], (char *const *)(uintptr_t)argv, environment);
        (void)fail(&why, errno, "execute %s", argv[0]);
    }
    log_event(LOG_ERROR, "the zygote cannot be started", "reason", why.text, NULL);
    _exit(1);
}

static int launch(struct zygote *zygote, struct failure *why)
{
    _cleanup_close_ int storage = storage_make(STORAGE_BYTES, 0, why);
    if (storage < 0)
        return storage;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return fail(why, errno, "make a socket");
    _cleanup_close_ int own = pair[0], other = pair[1];
    struct clone_args arguments = {
        .flags = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS, .exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid == 0)
        run(zygote->host, storage, other);
    if (pid < 0)
        return fail(why, errno, "start the zygote");
    zygote->socket = TAKE_DESCRIPTOR(own);
    return 0;
}

/* --- its states ----------------------------------------------------------------------------- */

static void begin(struct zygote *zygote);

static void restart_expired(struct timer *timer _unused_, void *user)
{
    begin(user);
}

static void go_down(struct zygote *zygote, const char *reason)
{
    log_event(LOG_WARNING, "the zygote is down; kernels start more slowly until it is back",
              "reason", reason, NULL);
    zygote->source = source_remove(zygote->source);
    zygote->socket = close_fd(zygote->socket);
    zygote->state = ZYGOTE_DOWN;
    timer_arm(zygote->restart, zygote->restart_ms);
    zygote->restart_ms *= 2;
    if (zygote->restart_ms > SLOWEST_RESTART_MS)
        zygote->restart_ms = SLOWEST_RESTART_MS;
}

/* It says one thing only, and its end is the end of the socket. */
static void hear(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct zygote *zygote = user;
    char word;
    ssize_t n = receive_with_fds(zygote->socket, &word, sizeof word, NULL, NULL);
    if (n == -EAGAIN)
        return;
    if (n != sizeof word)
        return go_down(zygote, "it ended");
    zygote->state = ZYGOTE_READY;
    zygote->restart_ms = FIRST_RESTART_MS;
    log_event(LOG_INFO, "the zygote is ready", NULL);
}

static void begin(struct zygote *zygote)
{
    struct failure why;
    int r = launch(zygote, &why);
    if (r == 0) {
        (void)set_nonblocking(zygote->socket, true);
        zygote->source = source_add(zygote->host->loop, zygote->socket, EPOLLIN, hear, zygote);
        r = zygote->source ? 0 : fail(&why, errno, "watch the zygote");
    }
    if (r < 0)
        return go_down(zygote, why.text);
    zygote->state = ZYGOTE_STARTING;
}

struct zygote *zygote_new(struct container_host *host)
{
    struct zygote *zygote = must_alloc(sizeof *zygote);
    *zygote = (struct zygote){.host = host, .socket = -1, .restart_ms = FIRST_RESTART_MS};
    zygote->restart = timer_add(host->loop, restart_expired, zygote);
    begin(zygote);
    return zygote;
}

/* --- requests ------------------------------------------------------------------------------- */

static void refuse(int report, int code, const char *text)
{
    struct fork_report message = {.type = FORK_FAILED, .value = code};
    (void)snprintf(message.text, sizeof message.text, "%s", text);
    (void)send_with_fds(report, &message, sizeof message, NULL, 0);
}

/* `leash` -1: the container is ready. */
static int ask(struct zygote *zygote, int report, const struct zygote_target *target, int leash)
{
    struct fork_request request = {.version = ZYGOTE_PROTOCOL_VERSION, .on_leash = leash >= 0};
    int all[FORK_DESCRIPTORS] = {[FORK_REPORT] = report, [FORK_INIT] = target->init_pidfd};
    size_t count = FORK_CGROUPS;
    for (int i = 0; i < target->cgroup->tree->count; i++)
        all[count++] = target->cgroup->directories[i];
    if (leash >= 0)
        all[count++] = leash;
    return send_with_fds(zygote->socket, &request, sizeof request, all, count);
}

int zygote_begin(struct zygote *zygote, const struct zygote_target *target,
                 struct first_kernel *ret, struct failure *why)
{
    int report[2], leash[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, report) < 0)
        return fail(why, errno, "make a socket");
    _cleanup_close_ int shim_report = report[0], child_report = report[1];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, leash) < 0)
        return fail(why, errno, "make a socket");
    _cleanup_close_ int own_leash = leash[0], child_leash = leash[1];
    bool asked = zygote && zygote->state == ZYGOTE_READY &&
                 ask(zygote, child_report, target, child_leash) == 0;
    ret->report = TAKE_DESCRIPTOR(shim_report);
    ret->leash = asked ? TAKE_DESCRIPTOR(own_leash) : -1;
    return 0;
}

int zygote_forward(struct zygote *zygote, int socket, const struct zygote_target *target)
{
    struct fork_request request;
    int fds[FORK_FROM_SHIM];
    size_t count = FORK_FROM_SHIM;
    ssize_t n = receive_with_fds(socket, &request, sizeof request, fds, &count);
    if (n == -EAGAIN)
        return 0;
    bool sound = n == sizeof request && count == FORK_FROM_SHIM &&
                 request.version == ZYGOTE_PROTOCOL_VERSION;
    int r = sound ? 0 : -EPIPE;
    if (sound && zygote->state != ZYGOTE_READY)
        refuse(fds[FORK_REPORT], EAGAIN, "there is no zygote now");
    else if (sound && ask(zygote, fds[FORK_REPORT], target, -1) < 0)
        refuse(fds[FORK_REPORT], EAGAIN, "the zygote does not keep up");
    for (size_t i = 0; n > 0 && i < count; i++)
        (void)close_fd(fds[i]);
    return r;
}
