#include "keeper/nameless_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attributes.h"
#include "husk/limits.h"
#include "keeper/open_beneath.h"

enum {
    LINK_SIZE = sizeof "/proc/self/fd/" + 12,
    TEMPORARY_SIZE = sizeof ".husk-" + 16
};

int nameless_file_make(int home, uid_t uid)
{
    _cleanup_close_ int fd = openat(home, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0644);
    if (fd < 0 || fchown(fd, uid, uid) < 0 || fchmod(fd, 0644) < 0)
        return -errno;
    return TAKE_DESCRIPTOR(fd);
}

/* Whoever sends the descriptor may have been taken over: nothing but what nameless_file_make() made gets a name. */
static bool is_nameless(int home, uid_t uid, int fd)
{
    struct stat file, folder;
    return fd >= 0 && fstat(fd, &file) == 0 && fstat(home, &folder) == 0 && S_ISREG(file.st_mode) &&
           file.st_nlink == 0 && file.st_uid == uid && file.st_dev == folder.st_dev;
}

/* --- folders ------------------------------------------------------------------------------------ */

/* Each prefix of the path is resolved anew from `home`: so links mean the same as for everybody else, and nothing leads out. */
static int open_prefix(int home, const char *path, size_t length)
{
    char prefix[MAX_FILE_PATH_BYTES + 1];
    if (length == 0)
        return open_beneath(home, ".", O_PATH | O_DIRECTORY, 0);
    memcpy(prefix, path, length);
    prefix[length] = '\0';
    return open_beneath(home, prefix, O_PATH | O_DIRECTORY, 0);
}

static int make_folder(int parent, const char *name, uid_t uid)
{
    if (mkdirat(parent, name, 0755) < 0)
        return -errno;
    /* What is there now belongs to the sandbox, whatever it did meanwhile. */
    _cleanup_close_ int made = open_beneath(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    if (made < 0)
        return made;
    return fchownat(made, "", uid, uid, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* The folder of the first `length` bytes of the path, made if it is not there. *made: from how many bytes on that was so;
 * `length` + 1: nothing was made. */
static int open_folders(int home, uid_t uid, const char *path, size_t length, size_t *made)
{
    *made = length + 1;
    _cleanup_close_ int parent = open_prefix(home, path, length);
    if (parent != -ENOENT)
        return TAKE_DESCRIPTOR(parent);
    parent = open_prefix(home, path, 0);
    for (size_t end = 0; parent >= 0 && end < length;) {
        size_t start = end + strspn(path + end, "/");
        size_t name_length = strcspn(path + start, "/");
        char name[MAX_FILE_NAME_BYTES + 1];
        if (name_length == 0)
            break;
        if (name_length >= sizeof name)
            return -ENAMETOOLONG;
        memcpy(name, path + start, name_length);
        name[name_length] = '\0';
        end = start + name_length;
        int next = open_prefix(home, path, end);
        if (next == -ENOENT) {
            int r = make_folder(parent, name, uid);
            if (r < 0 && r != -EEXIST)
                return r;
            if (r == 0 && *made > end)
                *made = end;
            next = open_prefix(home, path, end);
        }
        close(parent);
        parent = next;
    }
    return TAKE_DESCRIPTOR(parent);
}

/* The folders from the prefix of `made` bytes on, the last one first; those that are not empty stay. */
static void remove_folders(int home, const char *path, size_t length, size_t made)
{
    while (length >= made && length > 0) {
        char name[MAX_FILE_NAME_BYTES + 1];
        size_t start = length;
        while (start > 0 && path[start - 1] != '/')
            start--;
        if (length - start >= sizeof name)
            return;
        memcpy(name, path + start, length - start);
        name[length - start] = '\0';
        for (length = start; length > 0 && path[length - 1] == '/';)
            length--;
        _cleanup_close_ int parent = open_prefix(home, path, length);
        int r = parent < 0 ? parent : unlinkat(parent, name, AT_REMOVEDIR) < 0 ? -errno : 0;
        if (r < 0 && r != -ENOENT) /* the last ones may not have been made */
            return;
    }
}

/* --- the name ----------------------------------------------------------------------------------- */

static int link_as(int fd, int folder, const char *name)
{
    char link[LINK_SIZE];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, link, folder, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

/* Under another name first: only a rename replaces what is there in one step. */
static int link_over(int fd, int folder, const char *name)
{
    char temporary[TEMPORARY_SIZE];
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return -EIO;
    (void)snprintf(temporary, sizeof temporary, ".husk-%016llx", (unsigned long long)number);
    int r = link_as(fd, folder, temporary);
    if (r < 0)
        return r;
    if (renameat(folder, temporary, folder, name) == 0)
        return 0;
    r = errno == EEXIST || errno == ENOTEMPTY ? -EISDIR : -errno;
    (void)unlinkat(folder, temporary, 0);
    return r;
}

int nameless_file_place(int home, uid_t uid, int fd, const char *path, bool *replaced)
{
    if (!is_nameless(home, uid, fd))
        return -EBADF;
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
        return -EISDIR;
    if (strlen(name) > MAX_FILE_NAME_BYTES || strlen(path) > MAX_FILE_PATH_BYTES)
        return -ENAMETOOLONG;
    size_t length = (size_t)(name - path), made;
    while (length > 0 && path[length - 1] == '/')
        length--;
    _cleanup_close_ int folder = open_folders(home, uid, path, length, &made);
    int r = folder < 0 ? folder : link_as(fd, folder, name);
    *replaced = r == -EEXIST;
    if (*replaced)
        r = link_over(fd, folder, name);
    if (r < 0)
        remove_folders(home, path, length, made);
    return r;
}
