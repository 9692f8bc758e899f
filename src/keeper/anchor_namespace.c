#include "keeper/anchor_namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/text.h"

/* The next "owner:first:count"; lines that are something else are passed over. */
static bool next_range(FILE *lines, char owner[NAMESPACE_OWNER_SIZE], struct id_range *range)
{
    _cleanup_free_ char *line = NULL;
    size_t size = 0;
    while (lines && getline(&line, &size, lines) >= 0) {
        uint64_t first, count;
        line[strcspn(line, "\n")] = '\0';
        char *rest = line, *name = strsep(&rest, ":"), *begin = strsep(&rest, ":");
        if (!rest || format_text(owner, NAMESPACE_OWNER_SIZE, "%s", name) < 0 ||
            parse_u64(begin, 0, UINT32_MAX, &first) < 0 ||
            parse_u64(rest, 0, UINT32_MAX, &count) < 0)
            continue;
        *range = (struct id_range){.first = (unsigned)first, .count = (unsigned)count};
        return true;
    }
    return false;
}

int namespace_subordinate_ids(const char *file, uid_t user, struct id_range *ret,
                              struct failure *why)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%u", user);
    const struct passwd *entry = getpwuid(user);
    const char *name = entry ? entry->pw_name : number;
    FILE *lines = fopen(file, "re");
    char owner[NAMESPACE_OWNER_SIZE];
    struct id_range range;
    bool found = false;
    while (!found && next_range(lines, owner, &range))
        found = (strcmp(owner, name) == 0 || strcmp(owner, number) == 0) &&
                range.count >= NAMESPACE_IDS - 1;
    if (lines)
        (void)fclose(lines);
    if (!found)
        return fail_plain(
            why, EPERM,
            "user %s has no %d subordinate ids in %s: run huskd as root, or give it some with "
            "`sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s`",
            name, NAMESPACE_IDS - 1, file, name);
    *ret = range;
    return 0;
}

bool namespace_ids_are_lent(const char *file, unsigned id_base, char owner[NAMESPACE_OWNER_SIZE])
{
    FILE *lines = fopen(file, "re");
    struct id_range range;
    bool found = false;
    while (!found && next_range(lines, owner, &range))
        found =
            range.first < id_base + NAMESPACE_IDS && id_base < (uint64_t)range.first + range.count;
    if (lines)
        (void)fclose(lines);
    return found;
}

pid_t namespace_fork(uid_t owner, struct failure *why)
{
    uid_t self = geteuid();
    if (owner != self && seteuid(owner) < 0)
        return fail(why, errno, "act as uid %u", owner);
    pid_t child = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | SIGCHLD,
                                 NULL, NULL, NULL, NULL);
    int code = errno;
    if (child != 0 && owner != self && seteuid(self) < 0)
        return fail(why, errno, "act as uid %u again", self);
    if (child >= 0)
        return child;
    if (code == EPERM || code == ENOSPC || code == EUSERS)
        return fail_plain(
            why, code,
            "this system does not allow user namespaces (%s): check the settings "
            "user.max_user_namespaces and kernel.unprivileged_userns_clone, and whether "
            "this machine is itself a restricted container",
            strerror(code));
    return fail(why, code, "make the namespaces");
}

/* Root may map any range itself. */
static int write_range(pid_t child, const char *file, unsigned id_base, struct failure *why)
{
    char path[64], line[64];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", child, file);
    (void)snprintf(line, sizeof line, "0 %u %d\n", id_base, NAMESPACE_IDS);
    int r = write_file_at(AT_FDCWD, path, line);
    return r < 0 ? fail(why, r, "write %s", path) : 0;
}

/* newuidmap CHILD 0 USER 1 1 FIRST COUNT */
static int run_map_helper(const char *helper, pid_t child, uid_t self, struct id_range range,
                          struct failure *why)
{
    char text[4][16];
    (void)snprintf(text[0], sizeof text[0], "%d", child);
    (void)snprintf(text[1], sizeof text[1], "%u", self);
    (void)snprintf(text[2], sizeof text[2], "%u", range.first);
    (void)snprintf(text[3], sizeof text[3], "%d", NAMESPACE_IDS - 1);
    pid_t pid = fork();
    if (pid == 0) {
        execlp(helper, helper, text[0], "0", text[1], "1", "1", text[2], text[3], (char *)NULL);
        _exit(127);
    }
    int status = -1;
    if (pid > 0)
        (void)waitpid(pid, &status, 0);
    if (status == 0)
        return 0;
    return fail_plain(why, EPERM, "%s failed: install the package uidmap, or run huskd as root",
                      helper);
}

static int map_user(pid_t child, struct failure *why)
{
    struct id_range uids = {0}, gids = {0};
    int r = namespace_subordinate_ids("/etc/subuid", getuid(), &uids, why);
    if (r >= 0)
        r = namespace_subordinate_ids("/etc/subgid", getuid(), &gids, why);
    if (r >= 0)
        r = run_map_helper("newuidmap", child, getuid(), uids, why);
    if (r >= 0)
        r = run_map_helper("newgidmap", child, getgid(), gids, why);
    return r;
}

int namespace_write_maps(pid_t child, unsigned id_base, struct failure *why)
{
    if (geteuid() != 0)
        return map_user(child, why);
    int r = write_range(child, "uid_map", id_base, why);
    return r < 0 ? r : write_range(child, "gid_map", id_base, why);
}

int namespace_enter(struct failure *why)
{
    if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return fail(why, errno, "become root of the namespace");
    /* Changing ids made the process undumpable, and then nobody may write the id maps of its
     * children. */
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0)
        return fail(why, errno, "stay dumpable");
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return fail(why, errno, "make mounts private");
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
        return fail(why, errno, "mount /proc");
    return 0;
}
