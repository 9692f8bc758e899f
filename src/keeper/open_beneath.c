#include "keeper/open_beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/attributes.h"

enum {
    ATTEMPTS = 16 /* at a path with ".." whose folders are being moved */
};

int open_beneath(int directory, const char *path, int flags, mode_t mode)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                           .mode = flags & O_CREAT ? mode : 0,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    int fd;
    unsigned attempts = 0;
    do {
        fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
    } while (fd < 0 && errno == EAGAIN && ++attempts < ATTEMPTS);
    return fd < 0 ? -errno : fd;
}

/* First a descriptor that opens nothing, then, if it is what it should be, that very file for reading: a FIFO's writer does not
 * wake up, and between the two nothing can be exchanged. */
int open_file_beneath(int directory, const char *path)
{
    struct stat status;
    char name[sizeof "/proc/self/fd/" + 12];
    _cleanup_close_ int found = open_beneath(directory, path, O_PATH, 0);
    if (found < 0)
        return found;
    if (fstat(found, &status) < 0)
        return -errno;
    if (!S_ISREG(status.st_mode))
        return S_ISDIR(status.st_mode) ? -EISDIR : -ENXIO;
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", found);
    /* Without O_NONBLOCK a lease that the sandbox holds would have us wait for it. */
    int fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}
