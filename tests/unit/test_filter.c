/* The filter alone, on a process that is still root: what it is denied, the filter denies. Arguments
 * are such that the kernel itself would answer something else, and do no harm if it were asked. */
#include "unit.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/fdio.h"
#include "keeper/filter.h"

enum {
    NOWHERE = 1, /* a pointer that leads nowhere */
    NO_FLAGS_LIKE_THIS = -1,
    NO_SUCH_CALL = 9999
};

#define GARBAGE 0xdeadbeef00000000UL

struct call {
    const char *name;
    long number;
    long arguments[6];
};
/* Versions of clang-format disagree about this. */
/* clang-format off */
#define CALL(name, ...) {#name, SYS_##name, {__VA_ARGS__}}
/* clang-format on */

static int filter_fd = -1;

static int compile(void **state _unused_)
{
    struct failure why = {0};
    filter_fd = filter_compile(&why);
    if (filter_fd < 0)
        print_error("%s\n", why.text);
    return filter_fd < 0 ? -1 : 0;
}

static int forget(void **state _unused_)
{
    filter_fd = close_fd(filter_fd);
    return 0;
}

static void install(void)
{
    static struct sock_filter code[BPF_MAXINSNS];
    ssize_t size = pread(filter_fd, code, sizeof code, 0);
    child_check(size > 0);
    struct sock_fprog program = {.len = (unsigned short)((size_t)size / sizeof code[0]),
                                 .filter = code};
    child_check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    child_check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
}

static long make(const struct call *call)
{
    const long *a = call->arguments;
    errno = 0;
    return syscall(call->number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void expect_error(const struct call *calls, size_t count, int error)
{
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        long result = make(&calls[i]);
        if (result == -1 && errno == error)
            continue;
        (void)dprintf(STDERR_FILENO, "%s: %ld (%s)\n", calls[i].name, result, strerror(errno));
        all = false;
    }
    child_check(all);
}

/* --- the program ------------------------------------------------------------------------------ */

static void the_program_is_sealed_and_small(void **state _unused_)
{
    struct stat status;
    assert_int_equal(fstat(filter_fd, &status), 0);
    assert_int_equal((size_t)status.st_size % sizeof(struct sock_filter), 0);
    assert_in_range(status.st_size / (off_t)sizeof(struct sock_filter), 100, BPF_MAXINSNS);
    assert_int_equal(fcntl(filter_fd, F_GET_SEALS),
                     F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    assert_int_equal(fcntl(filter_fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(pwrite(filter_fd, "x", 1, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(filter_fd, 0), -1);
}

static void compile_without_descriptors(void *user _unused_)
{
    struct failure why = {0};
    struct rlimit none = {0};
    child_check(setrlimit(RLIMIT_NOFILE, &none) == 0);
    child_check(filter_compile(&why) == -EMFILE);
    child_check(strstr(why.text, "filter"));
}

static void no_descriptor_is_an_error(void **state _unused_)
{
    assert_int_equal(in_child(compile_without_descriptors, NULL), 0);
}

/* --- refused ---------------------------------------------------------------------------------- */

static void make_refused_calls(void *user _unused_)
{
    static const struct call calls[] = {
        CALL(acct, NOWHERE),
        CALL(add_key, NOWHERE, NOWHERE),
        CALL(adjtimex, NOWHERE),
        CALL(bpf, NO_SUCH_CALL, NOWHERE, 8),
        CALL(chroot, NOWHERE),
        CALL(clock_adjtime, NO_SUCH_CALL),
        CALL(clock_settime, NO_SUCH_CALL),
        CALL(delete_module, NOWHERE),
        CALL(fanotify_init, NO_FLAGS_LIKE_THIS),
        CALL(finit_module, -1),
        CALL(fsconfig, -1),
        CALL(fsmount, -1, NO_FLAGS_LIKE_THIS),
        CALL(fsopen, NOWHERE),
        CALL(fspick, -1, NOWHERE),
        CALL(init_module, 0, 0),
        CALL(io_uring_enter, -1),
        CALL(io_uring_register, -1),
        CALL(io_uring_setup, 0, NOWHERE),
        CALL(kcmp, 0, 0, NO_SUCH_CALL),
        CALL(keyctl, NO_SUCH_CALL),
        CALL(mbind, 0, 0, NO_SUCH_CALL),
        CALL(migrate_pages, 0, 0, NOWHERE, NOWHERE),
        CALL(mount, NOWHERE, NOWHERE),
        CALL(mount_setattr, -1, NOWHERE),
        CALL(move_mount, -1, NOWHERE, -1, NOWHERE),
        CALL(move_pages, 0, 1, NOWHERE, 0, 0, NO_FLAGS_LIKE_THIS),
        CALL(name_to_handle_at, -1, NOWHERE),
        CALL(open_by_handle_at, -1, NOWHERE),
        CALL(open_tree, -1, NOWHERE, NO_FLAGS_LIKE_THIS),
        CALL(perf_event_open, NOWHERE),
        CALL(personality, 0xffffffff),
        CALL(pidfd_getfd, -1, -1),
        CALL(pivot_root, NOWHERE, NOWHERE),
        CALL(process_vm_readv, 0, 0, 0, 0, 0, NO_FLAGS_LIKE_THIS),
        CALL(prlimit64, 1, RLIMIT_CORE, 0, 0),
        CALL(prlimit64, (long)GARBAGE | 1, RLIMIT_CORE, 0, 0),
        CALL(process_vm_writev, 0, 0, 0, 0, 0, NO_FLAGS_LIKE_THIS),
        CALL(ptrace, PTRACE_TRACEME),
        CALL(reboot, 0, 0),
        CALL(request_key, NOWHERE),
        CALL(set_mempolicy, NO_SUCH_CALL),
        CALL(setdomainname, NOWHERE, -1),
        CALL(sethostname, NOWHERE, -1),
        CALL(setns, -1),
        CALL(settimeofday, NOWHERE),
        CALL(swapoff, NOWHERE),
        CALL(swapon, NOWHERE),
        CALL(syslog, NO_SUCH_CALL),
        CALL(umount2, NOWHERE, NO_FLAGS_LIKE_THIS),
        CALL(unshare, 0),
        CALL(userfaultfd, NO_FLAGS_LIKE_THIS),
#ifdef SYS_modify_ldt
        CALL(ioperm, NO_FLAGS_LIKE_THIS),
        CALL(iopl, 0),
        CALL(modify_ldt, NO_SUCH_CALL),
#endif
    };
    install();
    expect_error(calls, ARRAY_LENGTH(calls), EPERM);
}

static void calls_that_reach_for_the_host_get_eperm(void **state _unused_)
{
    assert_int_equal(in_child(make_refused_calls, NULL), 0);
}

static void make_unknown_calls(void *user _unused_)
{
    static const struct call calls[] = {
        CALL(clone3, NOWHERE, 0),
        CALL(io_setup, 1, NOWHERE), /* its quota is the machine's */
        CALL(io_submit, 0, 1, NOWHERE),
        CALL(process_mrelease, -1, 0),
        CALL(set_mempolicy_home_node, 0, 0, 0, NO_FLAGS_LIKE_THIS),
        {"a call of the future", NO_SUCH_CALL, {0}},
    };
    install();
    expect_error(calls, ARRAY_LENGTH(calls), ENOSYS);
}

static void calls_nobody_thought_of_get_enosys(void **state _unused_)
{
    assert_int_equal(in_child(make_unknown_calls, NULL), 0);
}

static void clone_namespaces(void *user _unused_)
{
    static const unsigned long namespaces[] = {CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
                                               CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
                                               CLONE_NEWNET};
    install();
    for (size_t i = 0; i < ARRAY_LENGTH(namespaces); i++) {
        for (unsigned long upper = 0; upper <= GARBAGE; upper += GARBAGE) {
            long pid = syscall(SYS_clone, namespaces[i] | SIGCHLD | upper, 0, 0, 0, 0);
            if (pid == 0)
                _exit(0);
            child_check(pid == -1 && errno == EPERM);
        }
    }
}

static void clone_makes_no_namespaces(void **state _unused_)
{
    assert_int_equal(in_child(clone_namespaces, NULL), 0);
}

#ifdef __x86_64__
static void call_as_32_bit(void *user _unused_)
{
    enum {
        GETPID_OF_I386 = 20
    };
    install();
    long result;
    __asm__ volatile("int $0x80"
                     : "=a"(result)
                     : "a"(GETPID_OF_I386)
                     : "memory", "r8", "r9", "r10", "r11");
    child_check(result == -ENOSYS);
}

static void the_other_door_of_the_processor_is_closed(void **state _unused_)
{
    assert_int_equal(in_child(call_as_32_bit, NULL), 0);
}
#endif

/* --- sockets ---------------------------------------------------------------------------------- */

static void open_strange_sockets(void *user _unused_)
{
    static const struct {
        unsigned long family;
        int error;
    } cases[] = {
        {AF_UNSPEC, EAFNOSUPPORT},
        {AF_AX25, EAFNOSUPPORT},
        {AF_IPX, EAFNOSUPPORT},
        {AF_KEY, EAFNOSUPPORT},
        {AF_PACKET, EAFNOSUPPORT},
        {AF_RDS, EAFNOSUPPORT},
        {AF_CAN, EAFNOSUPPORT},
        {AF_TIPC, EAFNOSUPPORT},
        {AF_ALG, EAFNOSUPPORT},
        {AF_VSOCK, EAFNOSUPPORT},
        {AF_XDP, EAFNOSUPPORT},
        {AF_BLUETOOTH, EAFNOSUPPORT},
        {~0UL, EAFNOSUPPORT},
        {GARBAGE | AF_PACKET, EAFNOSUPPORT},
        {GARBAGE | AF_NETLINK, EAFNOSUPPORT},
        /* libzmq goes on after this one and aborts after any other */
        {AF_NETLINK, EOPNOTSUPP},
    };
    install();
    bool all = true;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int ends[2];
        child_check(syscall(SYS_socketpair, cases[i].family, SOCK_SEQPACKET, 0, ends) == -1);
        child_check(errno == EAFNOSUPPORT);
        for (int type = SOCK_STREAM; type <= SOCK_SEQPACKET; type++) {
            long fd = syscall(SYS_socket, cases[i].family, type, 0);
            if (fd == -1 && errno == cases[i].error)
                continue;
            (void)dprintf(STDERR_FILENO, "family %lx: %ld (%s)\n", cases[i].family, fd,
                          strerror(errno));
            all = false;
        }
    }
    child_check(all);
}

static void sockets_of_the_kernel_cannot_be_had(void **state _unused_)
{
    assert_int_equal(in_child(open_strange_sockets, NULL), 0);
}

static void open_useful_sockets(void *user)
{
    const bool *has_ipv6 = user;
    int ends[2];
    install();
    child_check(socket(AF_UNIX, SOCK_STREAM, 0) >= 0);
    child_check(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) >= 0);
    child_check(socket(AF_INET, SOCK_DGRAM, 0) >= 0);
    child_check((socket(AF_INET6, SOCK_STREAM, 0) >= 0) == *has_ipv6);
    child_check(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
}

static void sockets_of_programs_can(void **state _unused_)
{
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool has_ipv6 = fd >= 0;
    close_fd(fd);
    assert_int_equal(in_child(open_useful_sockets, &has_ipv6), 0);
}

static void open_strange_protocols(void *user _unused_)
{
    static const struct {
        unsigned long type, protocol;
    } cases[] = {
        {SOCK_RAW, IPPROTO_ICMP},
        {SOCK_RAW, IPPROTO_RAW},
        {SOCK_RAW, 0},
        {SOCK_RAW | SOCK_CLOEXEC, IPPROTO_TCP},
        {SOCK_DGRAM, IPPROTO_ICMP},
        {SOCK_DGRAM, IPPROTO_ICMPV6},
        {SOCK_DGRAM, IPPROTO_UDPLITE},
        {SOCK_DGRAM, IPPROTO_TCP},
        {SOCK_STREAM, IPPROTO_MPTCP},
        {SOCK_STREAM, IPPROTO_SCTP},
        {SOCK_STREAM, IPPROTO_UDP},
        {SOCK_SEQPACKET, IPPROTO_SCTP},
        {SOCK_SEQPACKET, 0},
        {SOCK_DCCP, IPPROTO_DCCP},
        {SOCK_PACKET, 0},
        {SOCK_RDM, 0},
        {GARBAGE | SOCK_RAW, GARBAGE | IPPROTO_ICMP},
        {SOCK_STREAM, GARBAGE | IPPROTO_MPTCP},
    };
    static const int families[] = {AF_INET, AF_INET6};
    install();
    bool all = true;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        for (size_t f = 0; f < ARRAY_LENGTH(families); f++) {
            long fd = syscall(SYS_socket, families[f], cases[i].type, cases[i].protocol);
            if (fd == -1 && errno == EPROTONOSUPPORT)
                continue;
            (void)dprintf(STDERR_FILENO, "type %lx, protocol %lx: %ld (%s)\n", cases[i].type,
                          cases[i].protocol, fd, strerror(errno));
            all = false;
        }
    }
    child_check(all);
}

static void of_the_internet_there_are_tcp_and_udp(void **state _unused_)
{
    assert_int_equal(in_child(open_strange_protocols, NULL), 0);
}

static void put_something_on_tcp(void *user _unused_)
{
    int one = 1;
    install();
    int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_TCP);
    child_check(fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    for (unsigned long upper = 0; upper <= GARBAGE; upper += GARBAGE) {
        child_check(syscall(SYS_setsockopt, fd, IPPROTO_TCP | upper, TCP_ULP | upper, "tls", 4) ==
                    -1);
        child_check(errno == ENOPROTOOPT);
    }
    child_check(socket(AF_INET, SOCK_DGRAM, IPPROTO_UDP) >= 0);
    child_check(setsockopt(fd, SOL_SOCKET, TCP_ULP, NULL, 0) == -1 && errno != ENOPROTOOPT);
}

static void nothing_is_put_on_top_of_tcp(void **state _unused_)
{
    assert_int_equal(in_child(put_something_on_tcp, NULL), 0);
}

/* --- terminals -------------------------------------------------------------------------------- */

static void push_input(void *user _unused_)
{
    static const unsigned long requests[] = {TIOCSTI, TIOCLINUX, TIOCSETD};
    int ends[2], available = -1;
    child_check(pipe(ends) == 0);
    install();
    for (size_t i = 0; i < ARRAY_LENGTH(requests); i++) {
        for (unsigned long upper = 0; upper <= GARBAGE; upper += GARBAGE) {
            child_check(syscall(SYS_ioctl, ends[0], requests[i] | upper, "x") == -1);
            child_check(errno == EPERM);
        }
    }
    child_check(write(ends[1], "abc", 3) == 3);
    child_check(ioctl(ends[0], FIONREAD, &available) == 0 && available == 3);
    struct winsize size;
    child_check(ioctl(ends[0], TIOCGWINSZ, &size) == -1 && errno == ENOTTY);
}

static void nothing_is_pushed_into_a_terminal(void **state _unused_)
{
    assert_int_equal(in_child(push_input, NULL), 0);
}

/* --- allowed ---------------------------------------------------------------------------------- */

static void make_useful_calls(void *user _unused_)
{
    static const struct call calls[] = {
        CALL(accept4, -1),
        CALL(bind, -1),
        CALL(brk, 0),
        CALL(chmod, NOWHERE),
        CALL(clock_nanosleep, NO_SUCH_CALL),
        CALL(close_range, 1000, 1000),
        CALL(connect, -1),
        CALL(copy_file_range, -1, 0, -1),
        CALL(epoll_create1, 0),
        CALL(eventfd2, 0, 0),
        CALL(execve, NOWHERE),
        CALL(faccessat2, -1, NOWHERE),
        CALL(fallocate, -1),
        CALL(flock, -1),
        CALL(fsetxattr, -1, NOWHERE),
        CALL(ftruncate, -1),
        CALL(getrandom, NOWHERE, 0),
        CALL(getrusage, 0, NOWHERE),
        CALL(inotify_init1, 0),
        CALL(linkat, -1, NOWHERE),
        CALL(listen, -1),
        CALL(madvise, 0, 0, 0),
        CALL(membarrier, 0),
        CALL(memfd_create, NOWHERE),
        CALL(mlock, 0, 0),
        CALL(mremap, 0, 0, 0),
        CALL(openat2, -1, NOWHERE, 0, 24),
        CALL(pidfd_open, 1),
        CALL(pidfd_send_signal, -1),
        CALL(pipe2, NOWHERE),
        CALL(prctl, PR_GET_DUMPABLE),
        CALL(preadv2, -1),
        CALL(prlimit64, (long)GARBAGE, RLIMIT_CORE),
        CALL(renameat2, -1, NOWHERE, -1, NOWHERE),
        CALL(sched_getaffinity, 0, 0, NOWHERE),
        CALL(sched_setaffinity, 0, 0, NOWHERE),
        CALL(sched_yield, 0),
        CALL(semget, 0, -1),
        CALL(sendfile, -1, -1),
        CALL(setitimer, NO_SUCH_CALL),
        CALL(setsockopt, -1),
        CALL(shmget, 0, -1),
        CALL(signalfd4, -1, NOWHERE, 8),
        CALL(splice, -1, 0, -1, 0, 1),
        CALL(statx, -1, NOWHERE),
        CALL(symlinkat, NOWHERE, -1),
        CALL(sysinfo, NOWHERE),
        CALL(timer_create, NO_SUCH_CALL),
        CALL(timerfd_create, 0),
        CALL(utimensat, -1, NOWHERE),
        CALL(wait4, -1, 0, WNOHANG),
    };
    install();
    bool all = true;
    for (size_t i = 0; i < ARRAY_LENGTH(calls); i++) {
        if (make(&calls[i]) >= 0 || (errno != ENOSYS && errno != EPERM))
            continue;
        (void)dprintf(STDERR_FILENO, "%s: %s\n", calls[i].name, strerror(errno));
        all = false;
    }
    child_check(all);
}

static void what_programs_need_reaches_the_kernel(void **state _unused_)
{
    assert_int_equal(in_child(make_useful_calls, NULL), 0);
}

static void *set_flag(void *user)
{
    *(int *)user = 1;
    return user;
}

static void start_all_kinds(void *user _unused_)
{
    int flag = 0, status = -1;
    void *result = NULL;
    pthread_t thread;
    install();
    child_check(pthread_create(&thread, NULL, set_flag, &flag) == 0);
    child_check(pthread_join(thread, &result) == 0 && result == &flag && flag == 1);
    pid_t pid = fork();
    if (pid == 0)
        _exit(3);
    child_check(pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3);
    static char name[] = "true";
    char *arguments[] = {name, NULL}, *environment[] = {NULL};
    child_check(posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environment) == 0);
    child_check(waitpid(pid, &status, 0) == pid && status == 0);
}

static void threads_and_processes_can_be_started(void **state _unused_)
{
    assert_int_equal(in_child(start_all_kinds, NULL), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_program_is_sealed_and_small),
        cmocka_unit_test(no_descriptor_is_an_error),
        cmocka_unit_test(calls_that_reach_for_the_host_get_eperm),
        cmocka_unit_test(calls_nobody_thought_of_get_enosys),
        cmocka_unit_test(clone_makes_no_namespaces),
#ifdef __x86_64__
        cmocka_unit_test(the_other_door_of_the_processor_is_closed),
#endif
        cmocka_unit_test(sockets_of_the_kernel_cannot_be_had),
        cmocka_unit_test(sockets_of_programs_can),
        cmocka_unit_test(of_the_internet_there_are_tcp_and_udp),
        cmocka_unit_test(nothing_is_put_on_top_of_tcp),
        cmocka_unit_test(nothing_is_pushed_into_a_terminal),
        cmocka_unit_test(what_programs_need_reaches_the_kernel),
        cmocka_unit_test(threads_and_processes_can_be_started),
    };
    return cmocka_run_group_tests(tests, compile, forget);
}
