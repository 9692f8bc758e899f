#include "keeper/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fdio.h"

/* clang-format off */
static const char *const allowed[] = {
    "accept", "accept4", "access", "alarm", "arch_prctl", "bind", "brk", "cachestat", "capget",
    "chdir", "chmod", "chown", "clock_getres", "clock_gettime", "clock_nanosleep", "close",
    "close_range", "connect", "copy_file_range", "creat", "dup", "dup2", "dup3", "epoll_create",
    "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd",
    "eventfd2", "execve", "execveat", "exit", "exit_group", "faccessat", "faccessat2",
    "fadvise64", "fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat",
    "fcntl", "fdatasync", "fgetxattr", "flistxattr", "flock", "fork", "fremovexattr", "fsetxattr",
    "fstat", "fstatfs", "fsync", "ftruncate", "futex", "futex_requeue", "futex_wait",
    "futex_waitv", "futex_wake", "futimesat", "get_mempolicy", "get_robust_list",
    "get_thread_area", "getcpu", "getcwd", "getdents", "getdents64", "getegid", "geteuid",
    "getgid", "getgroups", "getitimer", "getpeername", "getpgid", "getpgrp", "getpid", "getppid",
    "getpriority", "getrandom", "getresgid", "getresuid", "getrlimit", "getrusage", "getsid",
    "getsockname", "getsockopt", "gettid", "gettimeofday", "getuid", "getxattr",
    "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "ioctl",
    "ioprio_get", "ipc", "kill", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self",
    "lchown", "lgetxattr", "link", "linkat", "listen", "listxattr", "llistxattr", "lremovexattr",
    "lseek", "lsetxattr", "lstat", "madvise", "membarrier", "memfd_create", "mincore", "mkdir",
    "mkdirat", "mknod", "mknodat", "mlock", "mlock2", "mlockall", "mmap", "mprotect",
    "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink",
    "mremap", "mseal", "msgctl", "msgget", "msgrcv", "msgsnd", "msync", "munlock", "munlockall",
    "munmap", "nanosleep", "newfstatat", "open", "openat", "openat2", "pause", "pidfd_open",
    "pidfd_send_signal", "pipe", "pipe2", "pkey_alloc", "pkey_free", "pkey_mprotect", "poll",
    "ppoll", "prctl", "pread64", "preadv", "preadv2", "prlimit64", "process_madvise", "pselect6",
    "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink", "readlinkat", "readv",
    "recvfrom", "recvmmsg", "recvmsg", "remap_file_pages", "removexattr", "rename", "renameat",
    "renameat2", "restart_syscall", "rmdir", "rseq", "rt_sigaction", "rt_sigpending",
    "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn", "rt_sigsuspend", "rt_sigtimedwait",
    "rt_tgsigqueueinfo", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity",
    "sched_getattr", "sched_getparam", "sched_getscheduler", "sched_rr_get_interval",
    "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield",
    "seccomp", "select", "semctl", "semget", "semop", "semtimedop", "sendfile", "sendmmsg",
    "sendmsg", "sendto", "set_robust_list", "set_thread_area", "set_tid_address", "setfsgid",
    "setfsuid", "setgid", "setgroups", "setitimer", "setpgid", "setpriority", "setregid",
    "setresgid", "setresuid", "setreuid", "setrlimit", "setsid", "setsockopt", "setuid",
    "setxattr", "shmat", "shmctl", "shmdt", "shmget", "shutdown", "sigaltstack", "signalfd",
    "signalfd4", "splice", "stat", "statfs", "statx", "symlink", "symlinkat",
    "sync", "sync_file_range", "syncfs", "sysinfo", "tee", "tgkill", "time", "timer_create",
    "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create",
    "timerfd_gettime", "timerfd_settime", "times", "tkill", "truncate", "umask", "uname",
    "unlink", "unlinkat", "utime", "utimensat", "utimes", "vfork", "vmsplice", "wait4", "waitid",
    "waitpid", "write", "writev"};
/* clang-format on */

/* Refused with EPERM, which is what an unprivileged process sees on any machine. */
/* clang-format off */
static const char *const refused[] = {
    "acct", "add_key", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime",
    "delete_module", "fanotify_init", "fanotify_mark", "finit_module", "fsconfig", "fsmount",
    "fsopen", "fspick", "get_kernel_syms", "init_module", "io_uring_enter", "io_uring_register",
    "io_uring_setup", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load", "keyctl",
    "lookup_dcookie", "mbind", "migrate_pages", "modify_ldt", "mount", "mount_setattr",
    "move_mount", "move_pages", "name_to_handle_at", "nfsservctl", "open_by_handle_at",
    "open_tree", "perf_event_open", "personality", "pidfd_getfd", "pivot_root",
    "process_vm_readv", "process_vm_writev", "ptrace", "quotactl", "quotactl_fd", "reboot",
    "request_key", "set_mempolicy", "setdomainname", "sethostname", "setns", "settimeofday",
    "swapoff", "swapon", "sysfs", "syslog", "umount", "umount2", "unshare", "uselib",
    "userfaultfd", "ustat", "vhangup", "vm86", "vm86old"};
/* clang-format on */

/* In front of libseccomp's program, which cannot say "all but these, whatever the upper half of the argument" and gives one refusal for
 * each call. Every list falls through at its end. The lower halves are what the kernel looks at. */
#define NUMBER          BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ARGUMENT(n)     BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[n]))
#define IF(value, t, f) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (t), (f))
#define REFUSE(error)   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ARGUMENT reads the lower half");

/* No input may be pushed into a terminal that somebody else reads. */
static const struct sock_filter terminal_rules[] = {
    NUMBER,
    IF(__NR_ioctl, 0, 5),
    ARGUMENT(1),
    IF(TIOCSTI, 2, 0),
    IF(TIOCSETD, 1, 0), /* would load line disciplines */
    IF(TIOCLINUX, 0, 1),
    REFUSE(EPERM),
};

/* Of the internet's protocols TCP and UDP: the others are rarely used, and where the kernel's faults are. Programs that try MPTCP first
 * go on with TCP after this error. */
enum {
    SOCKET_TYPE_MASK = 0xf /* above it are flags */
};
static const struct sock_filter protocol_rules[] = {
    NUMBER,
    IF(__NR_socket, 0, 14),
    ARGUMENT(0),
    IF(AF_INET, 1, 0),
    IF(AF_INET6, 0, 11),
    ARGUMENT(1),
    BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SOCKET_TYPE_MASK),
    IF(SOCK_STREAM, 1, 0),
    IF(SOCK_DGRAM, 3, 6),
    ARGUMENT(2), /* of a stream */
    IF(0, 5, 0),
    IF(IPPROTO_TCP, 4, 3),
    ARGUMENT(2), /* of datagrams */
    IF(0, 2, 0),
    IF(IPPROTO_UDP, 1, 0),
    REFUSE(EPROTONOSUPPORT),
};

/* Nothing is put on top of TCP: TLS in the kernel has had its share of faults, and libraries do it by themselves. */
static const struct sock_filter option_rules[] = {
    NUMBER,      IF(__NR_setsockopt, 0, 5), ARGUMENT(1),         IF(IPPROTO_TCP, 0, 3),
    ARGUMENT(2), IF(TCP_ULP, 0, 1),         REFUSE(ENOPROTOOPT),
};

/* A process's own limits only: the kernel lets everything with the same id take away init's. */
static const struct sock_filter limit_rules[] = {
    NUMBER, IF(__NR_prlimit64, 0, 3), ARGUMENT(0), IF(0, 1, 0), REFUSE(EPERM),
};

static int write_rules(int fd)
{
    static const struct {
        const struct sock_filter *rules;
        size_t size;
    } lists[] = {{terminal_rules, sizeof terminal_rules},
                 {protocol_rules, sizeof protocol_rules},
                 {option_rules, sizeof option_rules},
                 {limit_rules, sizeof limit_rules}};
    int r = 0;
    for (size_t i = 0; r >= 0 && i < ARRAY_LENGTH(lists); i++)
        r = write_all(fd, lists[i].rules, lists[i].size);
    return r;
}

/* Names that this libseccomp or this architecture does not have are left out: the default covers
 * them. */
static int add_names(scmp_filter_ctx context, const char *const *names, size_t count,
                     uint32_t action)
{
    for (size_t i = 0; i < count; i++) {
        int number = seccomp_syscall_resolve_name(names[i]);
        if (number == __NR_SCMP_ERROR)
            continue;
        int r = seccomp_rule_add(context, action, number, 0);
        if (r < 0)
            return r;
    }
    return 0;
}

/* clone without new namespaces. clone3 keeps its flags in memory, where no filter sees them: it
 * gets the default, and glibc falls back to clone. */
static int add_clone(scmp_filter_ctx context)
{
    static const scmp_datum_t namespaces[] = {CLONE_NEWNS,  CLONE_NEWCGROUP, CLONE_NEWUTS,
                                              CLONE_NEWIPC, CLONE_NEWUSER,   CLONE_NEWPID,
                                              CLONE_NEWNET};
    scmp_datum_t all = 0;
    int r = 0;
    for (size_t i = 0; r >= 0 && i < ARRAY_LENGTH(namespaces); i++) {
        all |= namespaces[i];
        r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces[i], namespaces[i]));
    }
    if (r >= 0)
        r = seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, all, 0));
    return r;
}

/* Families that reach nothing but this machine's kernel are refused. For netlink the refusal must read EOPNOTSUPP: libzmq lists
 * the interfaces when it binds, goes on without them after that error, and aborts after any other. */
static int add_socket(scmp_filter_ctx context)
{
    int r = 0;
    for (scmp_datum_t family = 0; r >= 0 && family <= AF_NETLINK; family++) {
        bool useful = family == AF_UNIX || family == AF_INET || family == AF_INET6;
        uint32_t refusal = SCMP_ACT_ERRNO(family == AF_NETLINK ? EOPNOTSUPP : EAFNOSUPPORT);
        r = seccomp_rule_add(context, useful ? SCMP_ACT_ALLOW : refusal, SCMP_SYS(socket), 1,
                             SCMP_A0(SCMP_CMP_EQ, family));
    }
    if (r >= 0)
        r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                             SCMP_A0(SCMP_CMP_GT, AF_NETLINK));
    /* socketpair makes sockets of any family too, before it finds that the family has no pairs */
    if (r >= 0)
        r = seccomp_rule_add(context, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
                             SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
    if (r >= 0)
        r = seccomp_rule_add(context, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socketpair), 1,
                             SCMP_A0(SCMP_CMP_NE, AF_UNIX));
    return r;
}

static int add_all(scmp_filter_ctx context)
{
    int r = seccomp_attr_set(context, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    /* no_new_privs is confine()'s business */
    if (r >= 0)
        r = seccomp_attr_set(context, SCMP_FLTATR_CTL_NNP, 0);
    if (r >= 0)
        r = add_names(context, allowed, ARRAY_LENGTH(allowed), SCMP_ACT_ALLOW);
    if (r >= 0)
        r = add_names(context, refused, ARRAY_LENGTH(refused), SCMP_ACT_ERRNO(EPERM));
    if (r >= 0)
        r = add_clone(context);
    if (r >= 0)
        r = add_socket(context);
    /* a balanced tree: a call costs a few comparisons instead of a walk through the list */
    if (r >= 0)
        r = seccomp_attr_set(context, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    return r;
}

int filter_compile(struct failure *why)
{
    _cleanup_close_ int fd = memfd_create("husk-filter", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return fail(why, errno, "make a memory file for the system call filter");
    scmp_filter_ctx context = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (!context)
        return fail(why, ENOMEM, "compile the system call filter");
    int r = write_rules(fd);
    if (r >= 0)
        r = add_all(context);
    if (r >= 0)
        r = seccomp_export_bpf(context, fd);
    seccomp_release(context);
    if (r < 0)
        return fail(why, r, "compile the system call filter");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return fail(why, errno, "seal the system call filter");
    return TAKE_DESCRIPTOR(fd);
}
