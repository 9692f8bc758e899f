#include "unit.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "base/fdio.h"
#include "husk/confine.h"
#include "keeper/filter.h"

enum {
    NOBODY = 65534,
    USER = 1000, /* inside a user namespace of its own */
    USER_OUTSIDE = 312345,
    NO_SUCH_CALL = 9999
};

/* Far above what the address sanitizer maps. */
#define PLENTY ((size_t)1 << 46)

static int filter_fd = -1;

static int compile(void **state _unused_)
{
    struct failure why = {0};
    filter_fd = filter_compile(&why);
    return filter_fd < 0 ? -1 : 0;
}

static int forget(void **state _unused_)
{
    filter_fd = close_fd(filter_fd);
    return 0;
}

/* In a child: a confinement that works for this process. */
static struct confinement usual(uid_t uid)
{
    int status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    child_check(status >= 0);
    return (struct confinement){
        .uid = uid, .filter_fd = filter_fd, .status_fd = status, .score_adjustment_fd = -1};
}

static void must_confine(const struct confinement *how)
{
    struct failure why = {0};
    int r = confine(how, &why);
    if (r < 0)
        (void)dprintf(STDERR_FILENO, "%s\n", why.text);
    child_check(r == 0);
}

/* --- what is gone ------------------------------------------------------------------------------ */

static void raise_ambient_capability(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    child_check(syscall(SYS_capget, &header, data) == 0);
    data[0].inheritable |= 1u << CAP_CHOWN;
    child_check(syscall(SYS_capset, &header, data) == 0);
    child_check(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0) == 0);
}

static void check_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    child_check(syscall(SYS_capget, &header, data) == 0);
    for (size_t i = 0; i < ARRAY_LENGTH(data); i++)
        child_check(!data[i].effective && !data[i].permitted && !data[i].inheritable);
    int last = 0;
    for (; prctl(PR_CAPBSET_READ, last) >= 0; last++) {
        child_check(prctl(PR_CAPBSET_READ, last) == 0);
        child_check(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, last, 0, 0) == 0);
    }
    child_check(last > CAP_AUDIT_READ);
    int wanted = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP_LOCKED |
                 SECBIT_KEEP_CAPS_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
                 SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    child_check(prctl(PR_GET_SECUREBITS) == wanted);
    child_check(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
    child_check(prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER);
}

static void check_ids(uid_t uid)
{
    uid_t ids[3];
    gid_t groups[3];
    child_check(getresuid(&ids[0], &ids[1], &ids[2]) == 0);
    child_check(getresgid(&groups[0], &groups[1], &groups[2]) == 0);
    for (int i = 0; i < 3; i++)
        child_check(ids[i] == uid && groups[i] == uid);
    child_check(getgroups(0, NULL) == 0);
    child_check(setuid(0) == -1 && setgid(0) == -1 && setgroups(0, NULL) == -1);
}

static void give_up_everything(void *user _unused_)
{
    static const gid_t groups[] = {0, 4, 27};
    child_check(setgroups(ARRAY_LENGTH(groups), groups) == 0);
    raise_ambient_capability();
    struct confinement how = usual(NOBODY);
    must_confine(&how);
    check_capabilities();
    check_ids(NOBODY);
    child_check(open("/proc/1/environ", O_RDONLY | O_CLOEXEC) == -1);
}

static void root_becomes_nobody_without_any_right(void **state _unused_)
{
    assert_int_equal(in_child(give_up_everything, NULL), 0);
}

/* As a container's first process does: the keeper writes the map of the one id it has. */
static void give_up_in_namespace(void *user)
{
    const int *report = user;
    char byte;
    child_check(setgroups(0, NULL) == 0);
    child_check(unshare(CLONE_NEWUSER) == 0);
    child_check(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0);
    child_check(write_all(*report, "m", 1) == 0);
    child_check(read_exactly(*report, &byte, 1) == 0);
    struct confinement how = usual(USER);
    struct confinement unmapped = how;
    unmapped.uid = USER + 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(confine(&unmapped, NULL) == -EINVAL ? 0 : 1);
    int status = -1;
    child_check(waitpid(pid, &status, 0) == pid && status == 0);
    must_confine(&how);
    check_capabilities();
    check_ids(USER);
}

static void write_map(pid_t pid, const char *file, const char *text)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    assert_int_equal(write_file_at(AT_FDCWD, path, text), 0);
}

static void it_works_in_a_user_namespace_with_one_id(void **state _unused_)
{
    int ends[2], status = -1;
    char byte, line[64];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    pid_t pid = start_child(give_up_in_namespace, &ends[1]);
    close(ends[1]);
    assert_int_equal(read_exactly(ends[0], &byte, 1), 0);
    (void)snprintf(line, sizeof line, "%d %d 1\n", USER, USER_OUTSIDE);
    write_map(pid, "setgroups", "deny");
    write_map(pid, "uid_map", line);
    write_map(pid, "gid_map", line);
    assert_int_equal(write_all(ends[0], "g", 1), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(ends[0]);
    assert_int_equal(status, 0);
}

/* --- what still works, and what does not ------------------------------------------------------- */

static void expect(long result, int error)
{
    child_check(result == -1);
    child_check(errno == error);
}

static void try_what_is_forbidden(void *user _unused_)
{
    int ends[2];
    struct confinement how = usual(NOBODY);
    child_check(pipe(ends) == 0);
    must_confine(&how);
    expect(syscall(SYS_mount, 1, 1, 1, 0, 0), EPERM);
    expect(syscall(SYS_unshare, 0), EPERM);
    expect(syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0), EPERM);
    expect(syscall(SYS_bpf, NO_SUCH_CALL, 1, 8), EPERM);
    expect(syscall(SYS_keyctl, NO_SUCH_CALL), EPERM);
    expect(syscall(SYS_io_uring_setup, 0, 1), EPERM);
    expect(syscall(NO_SUCH_CALL), ENOSYS);
    expect(syscall(SYS_clone3, 1, 0), ENOSYS);
    expect(socket(AF_NETLINK, SOCK_RAW, 0), EOPNOTSUPP);
    expect(socket(AF_PACKET, SOCK_RAW, 0), EAFNOSUPPORT);
    expect(socket(AF_VSOCK, SOCK_STREAM, 0), EAFNOSUPPORT);
    expect(socket(AF_ALG, SOCK_SEQPACKET, 0), EAFNOSUPPORT);
    expect(syscall(SYS_ioctl, ends[0], TIOCSTI, "x"), EPERM);
    expect(syscall(SYS_ioctl, ends[0], TIOCSTI | 0xdeadbeef00000000UL, "x"), EPERM);
}

static void the_filter_is_in_force(void **state _unused_)
{
    assert_int_equal(in_child(try_what_is_forbidden, NULL), 0);
}

static void *set_flag(void *user)
{
    *(int *)user = 1;
    return user;
}

static void do_what_programs_do(void *user)
{
    const char *directory = user;
    struct utsname name;
    struct confinement how = usual(NOBODY);
    must_confine(&how);
    child_check(uname(&name) == 0);
    child_check(socket(AF_INET, SOCK_STREAM, 0) >= 0);
    child_check(chdir(directory) == 0 && mkfifo("fifo", 0600) == 0);
    int flag = 0, status = -1;
    pthread_t thread;
    child_check(pthread_create(&thread, NULL, set_flag, &flag) == 0);
    child_check(pthread_join(thread, NULL) == 0 && flag == 1);
    pid_t pid = fork();
    if (pid == 0)
        _exit(prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER ? 0 : 1);
    child_check(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    (void)execl("/bin/sh", "sh", "-c", "test -p fifo && rm fifo && test $(id -u) = 65534", NULL);
    child_check(false);
}

static void ordinary_programs_run(void **state _unused_)
{
    char directory[32];
    make_directory(directory);
    assert_int_equal(chmod(directory, 0777), 0);
    int status = in_child(do_what_programs_do, directory);
    assert_int_equal(rmdir(directory), 0);
    assert_int_equal(status, 0);
}

/* --- limits ------------------------------------------------------------------------------------ */

static void check_limit(int resource, rlim_t value)
{
    struct rlimit limit;
    child_check(getrlimit(resource, &limit) == 0);
    child_check(limit.rlim_cur == value && limit.rlim_max == value);
}

static void set_limit(int resource, rlim_t value)
{
    child_check(setrlimit(resource, &(struct rlimit){value, value}) == 0);
}

static void limit_resources(void *user _unused_)
{
    char score[16];
    struct confinement how = usual(NOBODY);
    how.memory_bytes = PLENTY;
    how.score_adjustment_fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    child_check(how.score_adjustment_fd >= 0);
    struct rlimit files;
    child_check(getrlimit(RLIMIT_NOFILE, &files) == 0);
    must_confine(&how);
    check_limit(RLIMIT_CORE, 1);
    check_limit(RLIMIT_MSGQUEUE, 0);
    check_limit(RLIMIT_SIGPENDING, 1024);
    check_limit(RLIMIT_RTPRIO, 0);
    check_limit(RLIMIT_NICE, 0);
    check_limit(RLIMIT_NOFILE, files.rlim_max < 4096 ? files.rlim_max : 4096);
    check_limit(RLIMIT_DATA, PLENTY);
    child_check(read_file_at(AT_FDCWD, "/proc/self/oom_score_adj", score, sizeof score) > 0);
    child_check(strcmp(score, "500\n") == 0);
}

static void limits_are_set(void **state _unused_)
{
    assert_int_equal(in_child(limit_resources, NULL), 0);
}

static void keep_lower_limits(void *user _unused_)
{
    char before[16], after[16];
    struct confinement how = usual(NOBODY);
    how.memory_bytes = PLENTY * 2;
    child_check(read_file_at(AT_FDCWD, "/proc/self/oom_score_adj", before, sizeof before) > 0);
    set_limit(RLIMIT_NOFILE, 100);
    set_limit(RLIMIT_DATA, PLENTY);
    must_confine(&how);
    check_limit(RLIMIT_NOFILE, 100);
    check_limit(RLIMIT_DATA, PLENTY);
    child_check(read_file_at(AT_FDCWD, "/proc/self/oom_score_adj", after, sizeof after) > 0);
    child_check(strcmp(before, after) == 0);
}

static void limits_that_are_lower_stay(void **state _unused_)
{
    assert_int_equal(in_child(keep_lower_limits, NULL), 0);
}

static void leave_memory(void *user _unused_)
{
    struct rlimit before, after;
    struct confinement how = usual(NOBODY);
    child_check(getrlimit(RLIMIT_DATA, &before) == 0);
    must_confine(&how);
    child_check(getrlimit(RLIMIT_DATA, &after) == 0);
    child_check(before.rlim_cur == after.rlim_cur && before.rlim_max == after.rlim_max);
}

static void no_memory_limit_is_none(void **state _unused_)
{
    assert_int_equal(in_child(leave_memory, NULL), 0);
}

/* --- what must fail ---------------------------------------------------------------------------- */

struct attempt {
    struct confinement how; /* filter_fd and status_fd 0: the usual ones */
    uid_t begin_as;
    int result;
    const char *says;
};

static void try_in_vain(void *user)
{
    const struct attempt *attempt = user;
    struct failure why = {0};
    struct confinement how = usual(attempt->how.uid);
    if (attempt->how.filter_fd)
        how.filter_fd = attempt->how.filter_fd;
    if (attempt->how.status_fd)
        how.status_fd = attempt->how.status_fd;
    if (attempt->how.score_adjustment_fd)
        how.score_adjustment_fd = attempt->how.score_adjustment_fd;
    if (attempt->begin_as)
        child_check(setresuid(attempt->begin_as, attempt->begin_as, attempt->begin_as) == 0);
    int r = confine(&how, &why);
    if (r != attempt->result || why.code != -r || !strstr(why.text, attempt->says)) {
        (void)dprintf(STDERR_FILENO, "%d instead of %d: %s\n", r, attempt->result, why.text);
        child_check(false);
    }
}

static void expect_failure(struct attempt attempt)
{
    assert_int_equal(in_child(try_in_vain, &attempt), 0);
}

static void the_status_of_another_process_is_not_enough(void **state _unused_)
{
    int status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    expect_failure((struct attempt){
        .how = {.uid = NOBODY, .status_fd = status}, .result = -EPERM, .says = "incomplete: Uid"});
    close(status);
}

static void without_status_nothing_is_believed(void **state _unused_)
{
    int empty = file_with("", 0);
    expect_failure((struct attempt){
        .how = {.uid = NOBODY, .status_fd = empty}, .result = -EIO, .says = "/proc/self/status"});
    expect_failure((struct attempt){
        .how = {.uid = NOBODY, .status_fd = -1}, .result = -EBADF, .says = "/proc/self/status"});
    close(empty);
}

static const struct {
    const char *name, *right, *wrong;
} status_lines[] = {
    {"Uid", "65534\t65534\t65534\t65534", "65534\t65534\t0\t65534"},
    {"Gid", "65534\t65534\t65534\t65534", "65534\t65534\t65534\t0"},
    {"Groups", " ", "27 "},
    {"CapInh", "0000000000000000", "0000000000000001"},
    {"CapPrm", "0000000000000000", "0000010000000000"},
    {"CapEff", "0000000000000000", "0000000000000400"},
    {"CapBnd", "0000000000000000", "000001ffffffffff"},
    {"CapAmb", "0000000000000000", "8000000000000000"},
    {"NoNewPrivs", "1", "0"},
    {"Seccomp", "2", "0"},
};

enum fault {
    WRONG,
    MISSING,
    LONGER, /* begins as it should */
    FAULTS
};

enum {
    NO_LINE = -1
};

/* A status in which all is well but one line. */
static int status_with(int bad_line, enum fault fault)
{
    char text[2048] = "Name:\ttest\nUmask:\t0022\n";
    for (int i = 0; i < (int)ARRAY_LENGTH(status_lines); i++) {
        size_t used = strlen(text);
        bool bad = i == bad_line;
        if (bad && fault == MISSING)
            continue;
        (void)snprintf(text + used, sizeof text - used, "%s:\t%s%s\n", status_lines[i].name,
                       bad && fault == WRONG ? status_lines[i].wrong : status_lines[i].right,
                       bad && fault == LONGER ? "0" : "");
    }
    strncat(text, "Seccomp_filters:\t1\n", sizeof text - strlen(text) - 1);
    return file_with(text, strlen(text));
}

static void believe_status(void *user)
{
    struct confinement how = usual(NOBODY);
    how.status_fd = *(int *)user;
    must_confine(&how);
}

static void every_line_of_the_status_counts(void **state _unused_)
{
    int good = status_with(NO_LINE, WRONG);
    assert_int_equal(in_child(believe_status, &good), 0);
    close(good);
    for (int line = 0; line < (int)ARRAY_LENGTH(status_lines); line++) {
        for (int fault = WRONG; fault < FAULTS; fault++) {
            char says[64];
            (void)snprintf(says, sizeof says, "incomplete: %s is not", status_lines[line].name);
            int bad = status_with(line, (enum fault)fault);
            expect_failure((struct attempt){
                .how = {.uid = NOBODY, .status_fd = bad}, .result = -EPERM, .says = says});
            close(bad);
        }
    }
}

static void a_filter_that_is_none_is_refused(void **state _unused_)
{
    static const struct sock_filter garbage[] = {{.code = 0xffff}};
    static const struct sock_filter allow[] = {{.code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW},
                                               {.code = BPF_RET | BPF_K}};
    static struct sock_filter endless[BPF_MAXINSNS + 1];
    const struct {
        const void *bytes;
        size_t length;
        const char *says;
    } cases[] = {{"", 0, "filter of 0 bytes"},
                 {allow, sizeof allow - 1, "filter of 15 bytes"},
                 {endless, sizeof endless, "filter of 32776 bytes"},
                 {garbage, sizeof garbage, "install the system call filter"}};
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        int file = file_with(cases[i].bytes, cases[i].length);
        expect_failure((struct attempt){
            .how = {.uid = NOBODY, .filter_fd = file}, .result = -EINVAL, .says = cases[i].says});
        close(file);
    }
    expect_failure((struct attempt){
        .how = {.uid = NOBODY, .filter_fd = -1}, .result = -EBADF, .says = "system call filter"});
}

static void allow_everything(void *user _unused_)
{
    struct confinement how = usual(NOBODY);
    static const struct sock_filter allow[] = {{.code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW}};
    int fds[2];
    child_check(pipe(fds) == 0 && write(fds[1], allow, sizeof allow) > 0);
    how.filter_fd = fds[0];
    child_check(confine(&how, NULL) < 0);
}

static void a_filter_must_be_a_file(void **state _unused_)
{
    assert_int_equal(in_child(allow_everything, NULL), 0);
}

static void who_has_no_rights_to_give_up_cannot_be_confined(void **state _unused_)
{
    expect_failure((struct attempt){
        .how = {.uid = NOBODY}, .begin_as = NOBODY, .result = -EPERM, .says = "drop capability"});
}

static void a_score_that_cannot_be_written_is_an_error(void **state _unused_)
{
    int score = open("/dev/full", O_WRONLY | O_CLOEXEC);
    expect_failure((struct attempt){.how = {.uid = NOBODY, .score_adjustment_fd = score},
                                    .result = -ENOSPC,
                                    .says = "out-of-memory score"});
    close(score);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(root_becomes_nobody_without_any_right),
        cmocka_unit_test(it_works_in_a_user_namespace_with_one_id),
        cmocka_unit_test(the_filter_is_in_force),
        cmocka_unit_test(ordinary_programs_run),
        cmocka_unit_test(limits_are_set),
        cmocka_unit_test(limits_that_are_lower_stay),
        cmocka_unit_test(no_memory_limit_is_none),
        cmocka_unit_test(the_status_of_another_process_is_not_enough),
        cmocka_unit_test(without_status_nothing_is_believed),
        cmocka_unit_test(every_line_of_the_status_counts),
        cmocka_unit_test(a_filter_that_is_none_is_refused),
        cmocka_unit_test(a_filter_must_be_a_file),
        cmocka_unit_test(who_has_no_rights_to_give_up_cannot_be_confined),
        cmocka_unit_test(a_score_that_cannot_be_written_is_an_error),
    };
    return cmocka_run_group_tests(tests, compile, forget);
}
