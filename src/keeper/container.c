#include "keeper/container.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "keeper/cgroup.h"
#include "keeper/container_setup.h"
#include "keeper/descriptor_store.h"
#include "keeper/nameless_file.h"
#include "keeper/open_beneath.h"
#include "keeper/porters.h"
#include "keeper/shim_start.h"
#include "keeper/storage.h"
#include "keeper/zygote.h"

enum {
    CGROUP_RETRY_MS = 5
};

enum container_state {
    MAKING,
    RUNNING,
    REMOVING,
    CONTAINER_STATES
};

static const unsigned allowed_next[CONTAINER_STATES] = {
    [MAKING] = 1u << RUNNING | 1u << REMOVING,
    [RUNNING] = 1u << REMOVING,
};

struct watched {
    int pidfd; /* -1: there is none, or it has ended */
    struct source *source;
};

struct container {
    struct container_host *host;
    struct container *next;
    struct container_plan plan;
    enum container_state state;
    struct cgroup cgroup;
    int storage;
    pid_t setup_pid; /* while MAKING, for the id map */
    int report;      /* socket to the setup process */
    struct source *report_source;
    int init_socket; /* the shim's end, until the shim has it */
    int forks;       /* the shim asks for kernels here; -1: no more */
    struct source *forks_source;
    int leash; /* of the first kernel, while MAKING; -1: none */
    struct watched init, shim;
    struct porters *porters;
    struct timer *retry; /* cgroup removal */
};

static void set_state(struct container *container, enum container_state to)
{
    husk_assert(allowed_next[container->state] & (1u << to));
    container->state = to;
}

/* --- the anchor's copy
 * ------------------------------------------------------------------------------ */

static void store(const struct container *container)
{
    struct stored_message message = {
        .type = STORED_PUT, .uid = container->plan.uid, .limits = container->plan.limits};
    memcpy(message.id, container->plan.id.bytes, sizeof message.id);
    /* A descriptor must be there; that of init will not be taken for a socket by whoever gets it back. */
    int forks = container->forks >= 0 ? container->forks : container->init.pidfd;
    const int fds[] = {container->init.pidfd, container->storage, forks, container->shim.pidfd};
    size_t count = container->shim.pidfd >= 0 ? STORED_DESCRIPTORS : STORED_FORKS;
    int r = stored_send(container->host->store_fd, &message, fds, count);
    if (r < 0)
        log_line(LOG_ERROR, "the anchor does not take descriptors: %s", strerror(-r));
}

static void forget(const struct container *container)
{
    struct stored_message message = {.type = STORED_DROP};
    memcpy(message.id, container->plan.id.bytes, sizeof message.id);
    (void)stored_send(container->host->store_fd, &message, NULL, 0);
}

/* --- removing
 * ---------------------------------------------------------------------------------------- */

static void finish_removal(struct timer *timer _unused_, void *user)
{
    struct container *container = user;
    if (container->init.pidfd >= 0 || container->shim.pidfd >= 0 ||
        porters_count(container->porters) > 0)
        return;
    int r = cgroup_remove(&container->cgroup);
    if (r == -EBUSY) {
        timer_arm(container->retry, CGROUP_RETRY_MS);
        return;
    }
    if (r < 0)
        log_event(LOG_ERROR, "cgroup not removed", "sandbox", container->cgroup.name, "error",
                  strerror(-r), NULL);
    shim_socket_remove(container->host, container->plan.id);
    container->storage = close_fd(container->storage);
    forget(container);
    container->host->gone(container, container->host->user);
    timer_remove(container->retry);
    porters_free(container->porters);
    free(container);
}

static void stop_forks(struct container *container)
{
    container->forks_source = source_remove(container->forks_source);
    container->forks = close_fd(container->forks);
}

static void end_process(struct watched *watched)
{
    if (watched->pidfd >= 0)
        (void)syscall(SYS_pidfd_send_signal, watched->pidfd, SIGKILL, NULL, 0);
}

void container_remove(struct container *container)
{
    if (container->state == REMOVING)
        return;
    set_state(container, REMOVING);
    container->report_source = source_remove(container->report_source);
    container->report = close_fd(container->report);
    container->init_socket = close_fd(container->init_socket);
    container->leash = close_fd(container->leash);
    stop_forks(container);
    /* The end of pid 1 is the end of everything in its pid namespace; the kernel sees to that,
     * without races. */
    end_process(&container->init);
    end_process(&container->shim);
    porters_end(container->porters);
    timer_arm(container->retry, 0);
}

static void porter_ended(void *user)
{
    struct container *container = user;
    if (container->state == REMOVING)
        timer_arm(container->retry, 0);
}

static void process_ended(struct container *container, struct watched *watched, const char *which)
{
    watched->source = source_remove(watched->source);
    watched->pidfd = close_fd(watched->pidfd);
    if (container->state == RUNNING && !container->plan.trial)
        log_event(LOG_WARNING, "a sandbox ended by itself", "sandbox", container->cgroup.name,
                  "process", which, NULL);
    container_remove(container);
    timer_arm(container->retry, 0);
}

static void making_failed(struct container *container, const struct failure *why)
{
    container_remove(container);
    container->host->made(container, why, container->host->user);
}

/* The process may have said why before it ended, and this event may have come first. */
static void read_last_words(const struct container *container, struct failure *why)
{
    struct setup_report report;
    (void)fail_plain(why, ECHILD, "the first process of the container ended unexpectedly");
    if (recv(container->report, &report, sizeof report, MSG_DONTWAIT) == sizeof report &&
        report.code != 0) {
        report.text[sizeof report.text - 1] = '\0';
        (void)fail_plain(why, report.code, "%s", report.text);
    }
}

static void init_ended(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct container *container = user;
    if (container->state == MAKING) {
        struct failure why = {0};
        read_last_words(container, &why);
        making_failed(container, &why);
    }
    process_ended(container, &container->init, "init");
}

static void shim_ended(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct container *container = user;
    if (container->state == MAKING) {
        struct failure why = {0};
        (void)fail_plain(&why, ECHILD, "the shim ended unexpectedly");
        making_failed(container, &why);
    }
    process_ended(container, &container->shim, "shim");
}

/* Without a way to see its end a process counts as ended. */
static void watch(struct container *container, struct watched *watched, source_callback callback)
{
    watched->source =
        source_add(container->host->loop, watched->pidfd, EPOLLIN, callback, container);
    if (!watched->source) {
        end_process(watched);
        watched->pidfd = close_fd(watched->pidfd);
    }
}

/* --- kernels
 * ------------------------------------------------------------------------------------------ */

static void fork_wanted(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct container *container = user;
    struct zygote_target target = {.init_pidfd = container->init.pidfd,
                                   .cgroup = &container->cgroup};
    if (zygote_forward(container->host->zygote, container->forks, &target) < 0)
        stop_forks(container);
}

/* Without it the shim has its kernels executed. */
static void watch_forks(struct container *container)
{
    (void)set_nonblocking(container->forks, true);
    container->forks_source =
        source_add(container->host->loop, container->forks, EPOLLIN, fork_wanted, container);
    if (!container->forks_source)
        container->forks = close_fd(container->forks);
}

/* --- making
 * ------------------------------------------------------------------------------------------- */

/* The shim starts, and its first kernel is forked, while the container is being set up: what they need of it is there. */
static int start_shim(struct container *container, struct failure *why)
{
    struct zygote_target target = {.init_pidfd = container->init.pidfd,
                                   .cgroup = &container->cgroup};
    struct first_kernel kernel;
    int forks[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, forks) < 0)
        return fail(why, errno, "make a socket");
    _cleanup_close_ int shim_forks = forks[1];
    container->forks = forks[0];
    watch_forks(container);
    int r = zygote_begin(container->host->zygote, &target, &kernel, why);
    if (r < 0)
        return r;
    container->leash = kernel.leash;
    _cleanup_close_ int report = kernel.report;
    struct shim_plan plan = {.id = container->plan.id,
                             .uid = container->plan.uid,
                             .init_socket = container->init_socket,
                             .forks = shim_forks,
                             .report = report,
                             .init_pidfd = container->init.pidfd,
                             .storage = container->storage,
                             .cgroup = &container->cgroup};
    r = shim_start(container->host, &plan, &container->shim.pidfd, why);
    if (r < 0)
        return r;
    watch(container, &container->shim, shim_ended);
    if (container->shim.pidfd < 0)
        return fail(why, ECHILD, "watch the shim");
    container->init_socket = close_fd(container->init_socket);
    return 0;
}

/* Init runs: its end of the report socket closed without a word. */
static void init_runs(struct container *container)
{
    container->report_source = source_remove(container->report_source);
    container->report = close_fd(container->report);
    if (container->leash >= 0)
        (void)write_all(container->leash, "r", 1);
    container->leash = close_fd(container->leash);
    set_state(container, RUNNING);
    store(container);
    container->host->made(container, NULL, container->host->user);
}

static void setup_reports(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct container *container = user;
    struct setup_report report;
    struct failure why = {0};
    ssize_t n = read_some(container->report, &report, sizeof report);
    if (n == -EAGAIN)
        return;
    if (n == 0) {
        init_runs(container);
        return;
    }
    int r = n == sizeof report ? 0 : fail(&why, EPROTO, "set up the container");
    if (r >= 0 && report.code != 0) {
        report.text[sizeof report.text - 1] = '\0';
        r = fail_plain(&why, report.code, "%s", report.text);
    }
    if (r >= 0)
        r = setup_write_map(container->setup_pid, container->plan.uid, &why);
    if (r >= 0 && write_all(container->report, "m", 1) < 0)
        r = fail(&why, EPIPE, "set up the container");
    if (r < 0)
        making_failed(container, &why);
}

/* Fork the first process, and let the shim start beside it. Both sockets' far ends are closed here afterwards. */
static int begin(struct container *container, struct failure *why)
{
    struct container_host *host = container->host;
    int report[2], init[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, report) < 0)
        return fail(why, errno, "make a socket");
    container->report = report[0];
    _cleanup_close_ int child_report = report[1];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, init) < 0)
        return fail(why, errno, "make a socket");
    container->init_socket = init[0];
    _cleanup_close_ int child_init = init[1];
    const struct setup setup = {.rootfs = {.image = host->image,
                                           .mount_point = host->mount_point,
                                           .storage = container->storage,
                                           .cache = host->cache},
                                .cgroup = container->cgroup,
                                .filter_fd = host->filter_fd,
                                .init_program = host->init_program,
                                .init_socket = child_init,
                                .report = child_report};
    pid_t pid = setup_fork(&setup, &container->init.pidfd, why);
    if (pid < 0)
        return pid;
    container->setup_pid = pid;
    watch(container, &container->init, init_ended);
    container->report_source = source_add(host->loop, report[0], EPOLLIN, setup_reports, container);
    if (container->init.pidfd < 0 || !container->report_source)
        return fail(why, errno, "watch the container");
    store(container);
    return container->plan.trial ? 0 : start_shim(container, why);
}

static struct container *allocate(struct container_host *host, const struct container_plan *plan)
{
    struct container *container = must_alloc(sizeof *container);
    *container = (struct container){.host = host,
                                    .plan = *plan,
                                    .storage = -1,
                                    .report = -1,
                                    .init_socket = -1,
                                    .forks = -1,
                                    .leash = -1,
                                    .init = {.pidfd = -1},
                                    .shim = {.pidfd = -1}};
    container->retry = timer_add(host->loop, finish_removal, container);
    container->porters = porters_new(host, porter_ended, container);
    return container;
}

int container_new(struct container_host *host, const struct container_plan *plan,
                  struct container **ret, struct failure *why)
{
    struct container *container = allocate(host, plan);
    int r = cgroup_make(&host->cgroups, plan->id, &plan->limits, &container->cgroup, why);
    if (r < 0) {
        timer_remove(container->retry);
        porters_free(container->porters);
        free(container);
        return r;
    }
    container->storage = storage_make(plan->limits.disk_bytes, plan->uid, why);
    r = container->storage;
    if (r >= 0)
        r = begin(container, why);
    *ret = container;
    /* Half a container takes the same way out as a whole one. */
    if (r < 0)
        making_failed(container, why);
    return 0;
}

struct container *container_restore(struct container_host *host, const struct container_plan *plan,
                                    const int *fds, size_t count)
{
    struct container *container = allocate(host, plan);
    cgroup_reopen(&host->cgroups, plan->id, &container->cgroup);
    int *const places[] = {&container->init.pidfd, &container->storage, &container->forks,
                           &container->shim.pidfd};
    for (size_t i = 0; i < count; i++)
        *places[i] = fds[i];
    if (container->init.pidfd >= 0)
        watch(container, &container->init, init_ended);
    if (container->shim.pidfd >= 0)
        watch(container, &container->shim, shim_ended);
    if (container->forks >= 0)
        watch_forks(container);
    if (container->init.pidfd >= 0 && container->shim.pidfd >= 0)
        set_state(container, RUNNING);
    else
        container_remove(container);
    return container;
}

/* --- other limits
 * --------------------------------------------------------------------------------------- */

/* v2 would kill processes rather than refuse. */
static bool fits(const struct container *container, const struct sandbox_limits *limits)
{
    struct sandbox_usage usage;
    container_usage(container, &usage);
    return usage.memory_bytes < limits->memory_bytes && usage.disk_bytes < limits->disk_bytes;
}

static int set_limits(const struct container *container, const struct sandbox_limits *limits,
                      struct failure *why)
{
    int r = storage_resize(container->storage, limits->disk_bytes, why);
    return r < 0 ? r : cgroup_set_limits(&container->cgroup, limits, why);
}

int container_adapt(struct container *container, const struct sandbox_limits *limits,
                    bool *unchanged, struct failure *why)
{
    *unchanged = true;
    if (container->state != RUNNING)
        return fail_plain(why, ENOENT, "there is no such sandbox");
    if (!fits(container, limits))
        return fail_plain(why, EBUSY, "the sandbox uses more than these limits allow");
    int r = set_limits(container, limits, why);
    if (r < 0) {
        struct failure second;
        *unchanged = set_limits(container, &container->plan.limits, &second) == 0;
        return r;
    }
    container->plan.limits = *limits;
    store(container);
    return 0;
}

/* --- looking
 * -------------------------------------------------------------------------------------------- */

const struct container_plan *container_plan(const struct container *container)
{
    return &container->plan;
}

bool container_is_running(const struct container *container)
{
    return container->state == RUNNING;
}

/* The folder that holds `home` is ours: the sandbox cannot put anything else in its place. */
static int open_home(const struct container *container)
{
    if (container->state != RUNNING)
        return -ENOENT;
    int home = openat(container->storage, "home", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return home < 0 ? -errno : home;
}

int container_open_file(const struct container *container, const char *path)
{
    _cleanup_close_ int home = open_home(container);
    return home < 0 ? home : open_file_beneath(home, path);
}

int container_make_file(const struct container *container)
{
    _cleanup_close_ int home = open_home(container);
    return home < 0 ? home : nameless_file_make(home, container->plan.uid);
}

int container_place_file(const struct container *container, int fd, const char *path,
                         bool *replaced)
{
    _cleanup_close_ int home = open_home(container);
    return home < 0 ? home : nameless_file_place(home, container->plan.uid, fd, path, replaced);
}

int container_port(struct container *container, const char *path, int archive)
{
    _cleanup_close_ int home = open_home(container);
    if (home < 0)
        return home;
    _cleanup_close_ int folder = open_beneath(home, path, O_PATH | O_DIRECTORY, 0);
    if (folder < 0)
        return folder;
    struct porter_plan plan = {.uid = container->plan.uid,
                               .id = container->plan.id,
                               .cgroup = &container->cgroup,
                               .init_pidfd = container->init.pidfd,
                               .storage = container->storage,
                               .home = home,
                               .folder = folder,
                               .archive = archive};
    return porters_start(container->porters, &plan);
}

void container_usage(const struct container *container, struct sandbox_usage *usage)
{
    *usage = (struct sandbox_usage){.disk_bytes = storage_used_bytes(container->storage)};
    cgroup_usage(&container->cgroup, usage);
}

struct container *container_next(const struct container *container)
{
    return container->next;
}

void container_set_next(struct container *container, struct container *next)
{
    container->next = next;
}
