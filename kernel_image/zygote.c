/* The C part of the zygote (zygote.py): waits for requests, forks, and takes the child into its container, before any Python runs in
 * it. Loaded by the zygote's interpreter through a descriptor.
 *
 * The zygote is root of P, because only that can join containers, and has imported nothing but the image. Its child is
 * root of P for a handful of system calls: cgroups, namespaces, confinement (husk/confine.h, which checks itself). When one of them
 * fails it ends. What a shim has to say is read by the confined child only.
 *
 * One thread, no state but the table of children that have not been reaped. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/cgroup_entry.h"
#include "base/fdio.h"
#include "husk/confine.h"
#include "husk/zygote_protocol.h"

static const char working_directory[] = "/home/user";

/* Of the interpreter that has loaded this. */
void PyOS_BeforeFork(void);
void PyOS_AfterFork_Parent(void);
void PyOS_AfterFork_Child(void);

/* The whole interface, for ctypes. Serves until a child returns from here, confined, with the strings of its request in `strings`:
 * how many bytes. -errno: the keeper is gone, or something is wrong; then end. */
__attribute__((visibility("default"))) int zygote_serve(char *strings, size_t size);

struct child {
    pid_t pid;
    int report;
};

static struct child *children;
static size_t child_count, child_capacity;

/* A child's own. */
static struct {
    struct fork_order head;
    char strings[MAX_INIT_STRINGS_BYTES];
} order;

/* 0, or -errno when nobody listens. */
static int report(int socket, enum fork_report_type type, int value, const char *text)
{
    struct fork_report message = {.type = type, .value = value};
    (void)snprintf(message.text, sizeof message.text, "%s", text);
    return send_with_fds(socket, &message, sizeof message, NULL, 0);
}

/* --- the child ------------------------------------------------------------------------------ */

static int join_cgroups(const int *fds, size_t count, struct failure *why)
{
    for (size_t i = 0; i < count; i++) {
        int r = cgroup_enter(fds[i]);
        if (r < 0)
            return fail(why, r, "enter the cgroup");
    }
    return 0;
}

/* The user namespace last: it takes away the rights over the others. */
static int join_namespaces(int init, struct failure *why)
{
    if (setns(init, CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP) < 0)
        return fail(why, errno, "join the container");
    if (setgroups(0, NULL) < 0)
        return fail(why, errno, "drop groups");
    if (setns(init, CLONE_NEWUSER) < 0)
        return fail(why, errno, "join the user namespace");
    return 0;
}

/* Whoever holds the other end says that the container is ready, or lets go: then there will be none. */
static void wait_for_container(int leash)
{
    char byte;
    if (read_exactly(leash, &byte, 1) < 0)
        _exit(0);
}

/* What the zygote has open leads to other sandboxes and to the host: it goes before anything of the sandbox is waited for. */
static int close_all_but(int kept, struct failure *why)
{
    if ((kept > 3 && syscall(SYS_close_range, 3, kept - 1, 0) < 0) ||
        syscall(SYS_close_range, kept + 1, ~0U, 0) < 0)
        return fail(why, errno, "close descriptors");
    return 0;
}

/* A session of its own, so that a signal to its group reaches all it starts; standard streams; confinement. */
static int settle(int report_socket, struct failure *why)
{
    (void)setsid();
    umask(022);
    _cleanup_close_ int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        return fail(why, errno, "set standard streams");
    if (chdir(working_directory) < 0)
        return fail(why, errno, "go to %s", working_directory);
    int r = confine_inside(ZYGOTE_FILTER_FD, why);
    if (r == 0)
        r = close_all_but(report_socket, why);
    if (r < 0)
        return r;
    /* A shim that does not listen any more has started another kernel. */
    r = report(report_socket, FORK_JOINED, getpid(), "");
    if (r < 0)
        return fail(why, r, "report to the shim");
    return 0;
}

/* From here on no descriptor but the standard ones is open, and others of the sandbox may look into it. */
static int take_order(int report_socket, struct failure *why)
{
    struct pollfd watched = {.fd = report_socket, .events = POLLIN};
    int output = -1;
    size_t count = 1;
    while (poll(&watched, 1, -1) < 0)
        continue;
    ssize_t n = receive_with_fds(report_socket, &order, sizeof order, &output, &count);
    if (n == 0 || n == -ECONNRESET)
        _exit(0); /* the shim wants none any more */
    if (n < (ssize_t)sizeof order.head || count != 1 ||
        order.head.version != ZYGOTE_PROTOCOL_VERSION ||
        order.head.string_bytes != (size_t)n - sizeof order.head)
        return fail(why, EPROTO, "read the order");
    if (dup2(output, 1) < 0 || dup2(output, 2) < 0)
        return fail(why, errno, "set standard streams");
    if (syscall(SYS_close_range, 3, ~0U, 0) < 0)
        return fail(why, errno, "close descriptors");
    /* The change of ids made it undumpable, and its own files in /proc somebody else's. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        return fail(why, errno, "become dumpable");
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    return 0;
}

static void become_kernel(const struct fork_request *request, const int *fds, size_t count)
{
    struct failure why = {0};
    size_t cgroups = count - FORK_CGROUPS - request->on_leash;
    int r = join_cgroups(fds + FORK_CGROUPS, cgroups, &why);
    if (r >= 0 && request->on_leash)
        wait_for_container(fds[count - 1]);
    if (r >= 0)
        r = join_namespaces(fds[FORK_INIT], &why);
    if (r >= 0)
        r = settle(fds[FORK_REPORT], &why);
    if (r >= 0)
        r = take_order(fds[FORK_REPORT], &why);
    if (r >= 0)
        return;
    (void)report(fds[FORK_REPORT], FORK_FAILED, why.code, why.text);
    _exit(1);
}

/* --- the zygote ----------------------------------------------------------------------------- */

/* Where to note a child, before there is one. */
static struct child *reserve_child(void)
{
    if (child_count == child_capacity) {
        size_t capacity = child_capacity ? child_capacity * 2 : 64;
        struct child *grown = realloc(children, capacity * sizeof *grown);
        if (!grown)
            return NULL;
        children = grown;
        child_capacity = capacity;
    }
    return &children[child_count];
}

static void reap(void)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        size_t i = 0;
        while (i < child_count && children[i].pid != pid)
            i++;
        if (i == child_count)
            continue;
        (void)report(children[i].report, FORK_EXITED, status, "");
        (void)close_fd(children[i].report);
        children[i] = children[--child_count];
    }
}

/* Only children made from here on are in the container's pid namespace, and there is only this one. */
static pid_t fork_into(int init, int own_namespace)
{
    if (setns(init, CLONE_NEWPID) < 0)
        return -errno;
    PyOS_BeforeFork();
    pid_t pid = fork();
    int code = errno;
    if (pid == 0)
        return 0;
    PyOS_AfterFork_Parent();
    if (setns(own_namespace, CLONE_NEWPID) < 0)
        _exit(1); /* the next child must not end up there */
    return pid < 0 ? -code : pid;
}

static void note_child(struct child *place, pid_t pid, int report_socket)
{
    *place = (struct child){.pid = pid, .report = report_socket};
    child_count++;
    struct fork_report started = {.type = FORK_STARTED};
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    (void)send_with_fds(report_socket, &started, sizeof started, &pidfd, pidfd >= 0);
    (void)close_fd(pidfd);
}

/* True in the child. */
static bool start(const struct fork_request *request, int *fds, size_t count, int own_namespace)
{
    struct child *place = reserve_child();
    pid_t pid = place ? fork_into(fds[FORK_INIT], own_namespace) : -ENOMEM;
    if (pid == 0) {
        become_kernel(request, fds, count);
        PyOS_AfterFork_Child();
        return true;
    }
    if (pid < 0)
        (void)report(fds[FORK_REPORT], FORK_FAILED, -pid, "fork");
    else
        note_child(place, pid, TAKE_DESCRIPTOR(fds[FORK_REPORT]));
    for (size_t i = 0; i < count; i++)
        (void)close_fd(fds[i]);
    return false;
}

/* 1: this is the child; 0: go on; -errno: the keeper is gone. */
static int receive(int own_namespace)
{
    struct fork_request request;
    int fds[FORK_DESCRIPTORS];
    size_t count = FORK_DESCRIPTORS;
    ssize_t n = receive_with_fds(ZYGOTE_SOCKET_FD, &request, sizeof request, fds, &count);
    if (n == 0 || n == -ECONNRESET)
        return -EPIPE;
    if (n != sizeof request || request.on_leash > 1 || count < FORK_CGROUPS + request.on_leash)
        return n < 0 ? (int)n : -EPROTO;
    return start(&request, fds, count, own_namespace);
}

int zygote_serve(char *strings, size_t size)
{
    sigset_t child_signal;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &child_signal, NULL);
    int signals = signalfd(-1, &child_signal, SFD_CLOEXEC | SFD_NONBLOCK);
    int own_namespace = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    if (signals < 0 || own_namespace < 0 || send_with_fds(ZYGOTE_SOCKET_FD, "R", 1, NULL, 0) < 0)
        return -errno;
    struct pollfd watched[] = {{.fd = ZYGOTE_SOCKET_FD, .events = POLLIN},
                               {.fd = signals, .events = POLLIN}};
    int r = 0;
    while (r == 0) {
        if (poll(watched, ARRAY_LENGTH(watched), -1) < 0)
            continue;
        if (watched[1].revents) {
            struct signalfd_siginfo info;
            while (read(signals, &info, sizeof info) > 0)
                ;
            reap();
        }
        if (watched[0].revents)
            r = receive(own_namespace);
    }
    if (r < 0)
        return r;
    size_t length = order.head.string_bytes < size ? order.head.string_bytes : size;
    memcpy(strings, order.strings, length);
    return (int)length;
}
