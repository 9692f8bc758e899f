#include "husk/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdio.h"

enum {
    OPEN_FILES = 4096,
    PENDING_SIGNALS = 1024, /* and timers; what all sandboxes may have together is limited, too */
    LARGEST_STATUS = 8192,
    LARGEST_FILTER = 4096
};

/* Never above what the process already has: raising needs a capability that nothing here should
 * have. */
static int set_limit(int resource, rlim_t value, const char *name, struct failure *why)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) < 0)
        return fail(why, errno, "read the limit %s", name);
    if (limit.rlim_max != RLIM_INFINITY && (value == RLIM_INFINITY || value > limit.rlim_max))
        value = limit.rlim_max;
    limit.rlim_cur = value;
    limit.rlim_max = value;
    if (setrlimit(resource, &limit) < 0)
        return fail(why, errno, "set the limit %s", name);
    return 0;
}

static int limit_resources(const struct confinement *how, struct failure *why)
{
    /* 1, not 0: with 0 a core dump still goes to a handler of the host that core_pattern names. */
    int r = set_limit(RLIMIT_CORE, 1, "core", why);
    if (r >= 0)
        r = set_limit(RLIMIT_MSGQUEUE, 0, "message queues", why);
    if (r >= 0)
        r = set_limit(RLIMIT_SIGPENDING, PENDING_SIGNALS, "pending signals", why);
    /* Whoever starts huskd may have these, for a sound server or the like. */
    if (r >= 0)
        r = set_limit(RLIMIT_RTPRIO, 0, "real-time priority", why);
    if (r >= 0)
        r = set_limit(RLIMIT_NICE, 0, "niceness", why);
    if (r >= 0 && how->processes)
        r = set_limit(RLIMIT_NPROC, how->processes, "processes", why);
    if (r >= 0)
        r = set_limit(RLIMIT_NOFILE, OPEN_FILES, "open files", why);
    if (r >= 0 && how->memory_bytes)
        r = set_limit(RLIMIT_DATA, how->memory_bytes, "data", why);
    if (r >= 0 && how->score_adjustment_fd >= 0) {
        r = write_all(how->score_adjustment_fd, "500", 3);
        if (r < 0)
            return fail(why, r, "raise the out-of-memory score");
    }
    return r;
}

static int drop_bounding_set(struct failure *why)
{
    for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++) {
        if (prctl(PR_CAPBSET_DROP, capability) < 0)
            return fail(why, errno, "drop capability %lu", capability);
    }
    unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED |
                         SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
                         SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    if (prctl(PR_SET_SECUREBITS, bits) < 0)
        return fail(why, errno, "lock the secure bits");
    return 0;
}

/* In a user namespace where setgroups is denied the groups were dropped before it was entered. */
static int change_ids(uid_t uid, struct failure *why)
{
    if (getgroups(0, NULL) != 0 && setgroups(0, NULL) < 0)
        return fail(why, errno, "drop supplementary groups");
    if (setresgid(uid, uid, uid) < 0)
        return fail(why, errno, "become gid %u", uid);
    if (setresuid(uid, uid, uid) < 0)
        return fail(why, errno, "become uid %u", uid);
    return 0;
}

static int drop_capabilities(struct failure *why)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return fail(why, errno, "clear ambient capabilities");
    if (syscall(SYS_capset, &header, none) < 0)
        return fail(why, errno, "drop all capabilities");
    return 0;
}

static int install_filter(int fd, struct failure *why)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return fail(why, errno, "read the system call filter");
    size_t size = (size_t)status.st_size;
    if (size == 0 || size % sizeof(struct sock_filter) != 0 ||
        size / sizeof(struct sock_filter) > LARGEST_FILTER)
        return fail(why, EINVAL, "system call filter of %zu bytes", size);
    _cleanup_free_ struct sock_filter *code = malloc(size);
    if (!code)
        return fail(why, ENOMEM, "read the system call filter");
    ssize_t n = pread(fd, code, size, 0);
    if (n < 0 || (size_t)n != size)
        return fail(why, n < 0 ? errno : EIO, "read the system call filter");
    struct sock_fprog program = {.len = (unsigned short)(size / sizeof *code), .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return fail(why, errno, "set no_new_privs");
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
        return fail(why, errno, "install the system call filter");
    return 0;
}

/* One line "Name:\tvalue" must be there and be exactly that. */
static int expect_line(const char *status, const char *name, const char *value, struct failure *why)
{
    char wanted[128];
    (void)snprintf(wanted, sizeof wanted, "\n%s:\t%s\n", name, value);
    if (strstr(status, wanted))
        return 0;
    return fail_plain(why, EPERM, "confinement is incomplete: %s is not '%s'", name, value);
}

/* The kernel's word, not ours: a step that silently did nothing would otherwise go unnoticed. */
static int check(const struct confinement *how, struct failure *why)
{
    char status[LARGEST_STATUS], ids[64];
    ssize_t n = pread(how->status_fd, status, sizeof status - 1, 0);
    if (n <= 0)
        return fail(why, n < 0 ? errno : EIO, "read /proc/self/status");
    status[n] = '\0';
    (void)snprintf(ids, sizeof ids, "%u\t%u\t%u\t%u", how->uid, how->uid, how->uid, how->uid);
    const struct {
        const char *name, *value;
    } lines[] = {
        {"Uid", ids},
        {"Gid", ids},
        {"Groups", " "},
        {"CapInh", "0000000000000000"},
        {"CapPrm", "0000000000000000"},
        {"CapEff", "0000000000000000"},
        {"CapBnd", "0000000000000000"},
        {"CapAmb", "0000000000000000"},
        {"NoNewPrivs", "1"},
        {"Seccomp", "2"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(lines); i++) {
        int r = expect_line(status, lines[i].name, lines[i].value, why);
        if (r < 0)
            return r;
    }
    return 0;
}

int confine(const struct confinement *how, struct failure *why)
{
    int r = limit_resources(how, why);
    if (r >= 0)
        r = drop_bounding_set(why);
    if (r >= 0)
        r = change_ids(how->uid, why);
    if (r >= 0)
        r = drop_capabilities(why);
    if (r >= 0)
        r = install_filter(how->filter_fd, why);
    return r < 0 ? r : check(how, why);
}

int confine_inside(int filter_fd, struct failure *why)
{
    _cleanup_close_ int status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (status < 0)
        return fail(why, errno, "open /proc/self/status");
    _cleanup_close_ int score = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (score < 0)
        return fail(why, errno, "open /proc/self/oom_score_adj");
    struct confinement how = {.uid = SANDBOX_USER_ID,
                              .filter_fd = filter_fd,
                              .status_fd = status,
                              .score_adjustment_fd = score};
    return confine(&how, why);
}
