#include "huskd/state_directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/text.h"
#include "husk/keeper_protocol.h"

#define LOCK_NAME        "lock"
#define ANCHOR_LOCK_NAME "anchor.lock"

static int make_parents(const char *path)
{
    char part[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        if (format_text(part, sizeof part, "%.*s", (int)(slash - path), path) < 0)
            return -ENAMETOOLONG;
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return -errno;
    }
    return 0;
}

/* Somebody who may rename a folder on the way could put another in its place while root works in it. */
static int check_trust(const char *path, uid_t id_base, struct failure *why)
{
    char real[PATH_MAX];
    if (!realpath(path, real))
        return fail(why, errno, "look at %.120s", path);
    for (size_t length = strlen(real); length > 0; length--) {
        if (real[length] != '/' && real[length] != '\0')
            continue;
        real[length] = '\0';
        struct stat status;
        if (stat(real, &status) < 0)
            return fail(why, errno, "look at %.120s", real);
        bool ours = status.st_uid == 0 || status.st_uid == geteuid() || status.st_uid == id_base;
        if (!ours || (status.st_mode & (S_IWGRP | S_IWOTH) && !(status.st_mode & S_ISVTX)))
            return fail_plain(
                why, EPERM,
                "%.100s belongs to another user, or others may write to it, so the state directory "
                "is not safe there: choose another with --state",
                real);
    }
    return 0;
}

int state_directory_make(const char *path, uid_t id_base, struct failure *why)
{
    int r = make_parents(path);
    if (r == 0 && mkdir(path, 0755) < 0 && errno != EEXIST)
        r = -errno;
    struct stat status;
    if (r == 0 && lstat(path, &status) < 0)
        r = -errno;
    if (r == 0 && !S_ISDIR(status.st_mode))
        r = -ENOTDIR;
    if (r < 0)
        return fail(why, r,
                    "the state directory %.100s cannot be made; choose another with --state", path);
    return check_trust(path, id_base, why);
}

static int already_served(int fd, const char *path, struct failure *why)
{
    char pid[24] = "";
    ssize_t length = pread(fd, pid, sizeof pid - 1, 0);
    pid[length > 0 ? strcspn(pid, "\n") : 0] = '\0';
    return fail_plain(why, EBUSY,
                      "another huskd (process %s) already serves %.100s. Stop it first, or start "
                      "this one with its own --state and --listen",
                      *pid ? pid : "unknown", path);
}

/* The file may be removed by an anchor that ends just now: then what was locked is not what others
 * will find. */
static int lock_once(const char *path, const char *file, struct failure *why)
{
    _cleanup_close_ int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fail(why, errno, "open %.120s", file);
    /* Whoever can read it can lock it, and keep huskd from starting. */
    (void)fchmod(fd, 0600);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK ? already_served(fd, path, why)
                                    : fail(why, errno, "lock %.120s", file);
    struct stat mine, there;
    if (fstat(fd, &mine) < 0 || stat(file, &there) < 0 || mine.st_ino != there.st_ino ||
        mine.st_dev != there.st_dev)
        return -EAGAIN;
    if (ftruncate(fd, 0) < 0 || dprintf(fd, "%ld\n", (long)getpid()) < 0)
        return fail(why, errno, "write %.120s", file);
    return TAKE_DESCRIPTOR(fd);
}

int state_directory_lock(const char *path, uid_t id_base, struct failure *why)
{
    char file[PATH_MAX];
    if (format_text(file, sizeof file, "%s/" LOCK_NAME, path) < 0)
        return fail(why, ENAMETOOLONG, "%.120s", path);
    for (int attempt = 0; attempt < 100; attempt++) {
        int fd = lock_once(path, file, why);
        if (fd != -EAGAIN)
            return fd;
        int r = state_directory_make(path, id_base, why);
        if (r < 0)
            return r;
    }
    return fail(why, EAGAIN, "lock %.120s", file);
}

int state_directory_abandoned(const char *path)
{
    char file[PATH_MAX];
    if (format_text(file, sizeof file, "%s/" ANCHOR_LOCK_NAME, path) < 0)
        return -ENAMETOOLONG;
    _cleanup_close_ int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    return flock(fd, LOCK_SH | LOCK_NB) < 0 ? -errno : 0;
}

void state_directory_discard(const char *path)
{
    char lock[PATH_MAX], ledger[PATH_MAX];
    if (state_directory_abandoned(path) != 0 ||
        format_text(lock, sizeof lock, "%s/" LOCK_NAME, path) < 0 ||
        format_text(ledger, sizeof ledger, "%s/" LEDGER_NAME, path) < 0)
        return;
    (void)unlink(ledger);
    (void)unlink(lock);
    (void)rmdir(path);
}
