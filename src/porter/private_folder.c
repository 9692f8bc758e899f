#include "porter/private_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"

enum {
    MOST_ROUNDS_IN_VAIN = 3
};

static bool is_dot(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..");
}

/* Of a folder that is open already; readdir has a position of its own. */
static DIR *entries_of(int folder)
{
    _cleanup_close_ int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (entries)
        (void)TAKE_DESCRIPTOR(fd);
    return entries;
}

static void close_entries(DIR **entries)
{
    if (*entries)
        closedir(*entries);
}

/* A folder that its owner may not enter, or move: the owner changes that. */
static int open_own(int parent, const char *name)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(parent, name, flags);
    if (fd < 0 && errno == EACCES && fchmodat(parent, name, 0700, 0) == 0)
        fd = openat(parent, name, flags);
    return fd < 0 ? -errno : fd;
}

int private_folder_take(struct private_folder *folder, int from, const char *name)
{
    char number[24];
    (void)snprintf(number, sizeof number, "%lu", folder->count++);
    if (renameat(from, name, folder->fd, number) == 0)
        return 0;
    if (errno != EACCES)
        return -errno;
    /* Moving a folder changes its "..", which takes the right to write to it. */
    _cleanup_close_ int own = open_own(from, name);
    if (own < 0 || fchmod(own, 0700) < 0)
        return -EACCES;
    return renameat(from, name, folder->fd, number) < 0 ? -errno : 0;
}

/* --- making ------------------------------------------------------------------------------------- */

static void take_leftovers(struct private_folder *folder)
{
    _cleanup_(close_entries) DIR *entries = entries_of(folder->incoming);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        if (is_dot(entry->d_name) || !strcmp(entry->d_name, folder->name))
            continue;
        _cleanup_close_ int other = open_own(folder->incoming, entry->d_name);
        if (other >= 0 && flock(other, LOCK_EX | LOCK_NB) == 0)
            (void)private_folder_take(folder, folder->incoming, entry->d_name);
    }
}

static int make(struct private_folder *folder)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return -EIO;
    (void)snprintf(folder->name, sizeof folder->name, "%016llx", (unsigned long long)number);
    if (mkdirat(folder->incoming, folder->name, 0700) < 0)
        return -errno;
    folder->fd =
        openat(folder->incoming, folder->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder->fd < 0)
        return -errno;
    return flock(folder->fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
}

int private_folder_make(struct private_folder *folder, int incoming, struct failure *why)
{
    *folder = (struct private_folder){.incoming = incoming, .fd = -1};
    /* One after the other: a folder whose lock is not taken yet would look like a leftover. */
    if (flock(incoming, LOCK_EX) < 0)
        return fail(why, errno, "The private folder cannot be locked");
    int r = make(folder);
    if (r == 0)
        take_leftovers(folder);
    (void)flock(incoming, LOCK_UN);
    return r < 0 ? fail(why, r, "A private folder cannot be made") : 0;
}

/* --- removing ----------------------------------------------------------------------------------- */

/* What is in the folder: files go, folders move up into the private folder, where they wait for their turn. */
static bool empty_folder(struct private_folder *folder, int fd)
{
    bool any = false;
    _cleanup_(close_entries) DIR *entries = entries_of(fd);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        if (is_dot(entry->d_name))
            continue;
        bool gone = unlinkat(fd, entry->d_name, 0) == 0;
        if (!gone && (errno == EISDIR || errno == EPERM))
            gone = private_folder_take(folder, fd, entry->d_name) == 0;
        any = any || gone;
    }
    return any;
}

/* Once over what is in the private folder. False: nothing could be removed. */
static bool remove_round(struct private_folder *folder, bool *left)
{
    bool any = false;
    *left = false;
    _cleanup_(close_entries) DIR *entries = entries_of(folder->fd);
    for (const struct dirent *entry; entries && (entry = readdir(entries));) {
        if (is_dot(entry->d_name))
            continue;
        if (unlinkat(folder->fd, entry->d_name, 0) == 0) {
            any = true;
            continue;
        }
        _cleanup_close_ int fd = open_own(folder->fd, entry->d_name);
        if (fd >= 0) {
            (void)fchmod(fd, 0700);
            any = empty_folder(folder, fd) || any;
        }
        if (unlinkat(folder->fd, entry->d_name, AT_REMOVEDIR) == 0)
            any = true;
        *left = true;
    }
    return any;
}

void private_folder_remove(struct private_folder *folder)
{
    if (folder->fd < 0)
        return;
    bool left = true;
    for (unsigned in_vain = 0; left && in_vain < MOST_ROUNDS_IN_VAIN;)
        in_vain = remove_round(folder, &left) ? 0 : in_vain + 1;
    (void)unlinkat(folder->incoming, folder->name, AT_REMOVEDIR);
    folder->fd = close_fd(folder->fd);
}
