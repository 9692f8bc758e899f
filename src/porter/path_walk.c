#include "porter/path_walk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

bool path_next(const char **path, char name[MAX_FILE_NAME_BYTES + 1])
{
    for (;;) {
        *path += strspn(*path, "/");
        size_t length = strcspn(*path, "/");
        if (length == 0)
            return false;
        bool here = length == 1 && **path == '.';
        if (!here) {
            memcpy(name, *path, length);
            name[length] = '\0';
        }
        *path += length;
        if (!here)
            return true;
    }
}

int path_check(const char *path, struct failure *why)
{
    size_t length = strlen(path);
    unsigned depth = 0;
    if (length > MAX_FILE_PATH_BYTES)
        return fail_plain(why, EBADMSG,
                          "A name in the archive has %zu bytes; at most %d are taken.", length,
                          MAX_FILE_PATH_BYTES);
    if (!utf8_valid(path, length))
        return fail_plain(why, EBADMSG, "A name in the archive is not UTF-8.");
    if (*path == '/')
        return fail_plain(why, EBADMSG, "The archive has an absolute name: '%.150s'.", path);
    for (const char *at = path; *at;) {
        at += strspn(at, "/");
        size_t part = strcspn(at, "/");
        if (part == 2 && !strncmp(at, "..", 2))
            return fail_plain(why, EBADMSG, "The archive has a name with '..': '%.150s'.", path);
        if (part > MAX_FILE_NAME_BYTES || (part > 0 && ++depth > MAX_WALKED_DEPTH))
            return fail_plain(why, EBADMSG,
                              "The archive has a name that is too long or too deep: '%.150s'.",
                              path);
        at += part;
    }
    return 0;
}

/* By its text: whoever follows it later does so in the sandbox, or beneath the working directory. */
bool path_link_stays(const char *path, const char *target)
{
    long depth = -1; /* the link itself is no folder */
    char name[MAX_FILE_NAME_BYTES + 1];
    if (!*target || *target == '/' || strlen(target) > MAX_FILE_PATH_BYTES)
        return false;
    for (const char *at = path; path_next(&at, name);)
        depth++;
    for (const char *at = target; *at;) {
        at += strspn(at, "/");
        size_t part = strcspn(at, "/");
        if (part == 2 && !strncmp(at, "..", 2))
            depth--;
        else if (part > 0 && !(part == 1 && *at == '.'))
            depth++;
        if (depth < 0)
            return false;
        at += part;
    }
    return true;
}

static int enter(int folder, const char *name, bool make)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(folder, name, flags);
    if (fd < 0 && errno == ENOENT && make) {
        if (mkdirat(folder, name, 0755) < 0 && errno != EEXIST)
            return -errno;
        fd = openat(folder, name, flags);
    }
    return fd < 0 ? -(errno == ELOOP ? ENOTDIR : errno) : fd;
}

int path_open_parent(int top, const char *path, bool make, char name[MAX_FILE_NAME_BYTES + 1])
{
    char next[MAX_FILE_NAME_BYTES + 1];
    _cleanup_close_ int folder = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return -errno;
    if (!path_next(&path, name))
        return -EISDIR;
    while (path_next(&path, next)) {
        int below = enter(folder, name, make);
        if (below < 0)
            return below;
        close(folder);
        folder = below;
        memcpy(name, next, sizeof next);
    }
    return TAKE_DESCRIPTOR(folder);
}

int path_open(int top, const char *path, bool make)
{
    char name[MAX_FILE_NAME_BYTES + 1];
    _cleanup_close_ int parent = path_open_parent(top, path, make, name);
    if (parent == -EISDIR) {
        int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
    }
    return parent < 0 ? parent : enter(parent, name, make);
}
