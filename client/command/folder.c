#include "command/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/attributes.h"
#include "base/memory.h"

static int make_all(const char *path)
{
    _cleanup_free_ char *copy = must_copy(path);
    for (char *at = copy; *at;) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        char end = *at;
        *at = '\0';
        if (mkdir(copy, 0777) < 0 && errno != EEXIST)
            return -errno;
        *at = end;
    }
    return 0;
}

int folder_open(const char *path, bool make)
{
    if (!*path)
        path = ".";
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && make) {
        int r = make_all(path);
        if (r < 0)
            return r;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    return fd < 0 ? -errno : fd;
}

bool folder_is(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

char *folder_last_name(const char *path)
{
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    char *name = must_format("%.*s", (int)(end - start), path + start);
    if (!strcmp(name, ".") || !strcmp(name, ".."))
        *name = '\0';
    return name;
}
