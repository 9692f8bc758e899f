#include "keeper/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "husk/limits.h"

static int set_option(int context, const char *key, const char *value, struct failure *why)
{
    if (fsconfig(context, FSCONFIG_SET_STRING, key, value, 0) < 0)
        return fail(why, errno, "set %s=%s of a tmpfs", key, value);
    return 0;
}

/* Then make it, or change it. */
static int configure(int context, uint64_t bytes, enum fsconfig_command command,
                     struct failure *why)
{
    char size[24], inodes[24];
    (void)snprintf(size, sizeof size, "%" PRIu64, bytes);
    (void)snprintf(inodes, sizeof inodes, "%" PRIu64, bytes / DISK_BYTES_PER_INODE);
    int r = set_option(context, "size", size, why);
    if (r == 0)
        r = set_option(context, "nr_inodes", inodes, why);
    if (r == 0 && fsconfig(context, command, NULL, NULL, 0) < 0)
        r = fail(why, errno, "make a tmpfs of %" PRIu64 " bytes", bytes);
    return r;
}

int storage_make(uint64_t bytes, uid_t uid, struct failure *why)
{
    static const struct {
        const char *name;
        bool owned;
    } directories[] = {{"upper", false}, {"work", false}, {"root", false},   {"home", true},
                       {"run", true},    {"shm", true},   {"incoming", true}};
    _cleanup_close_ int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (context < 0)
        return fail(why, errno, "open a tmpfs");
    int r = set_option(context, "mode", "0711", why);
    if (r == 0)
        r = configure(context, bytes, FSCONFIG_CMD_CREATE, why);
    if (r < 0)
        return r;
    _cleanup_close_ int storage =
        fsmount(context, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (storage < 0)
        return fail(why, errno, "mount a tmpfs");
    for (size_t i = 0; i < ARRAY_LENGTH(directories); i++) {
        const char *name = directories[i].name;
        if (mkdirat(storage, name, 0755) < 0)
            return fail(why, errno, "make the directory %s", name);
        if (directories[i].owned && fchownat(storage, name, uid, uid, 0) < 0)
            return fail(why, errno, "give %s to uid %u", name, uid);
    }
    return TAKE_DESCRIPTOR(storage);
}

int storage_resize(int storage, uint64_t bytes, struct failure *why)
{
    _cleanup_close_ int context = fspick(storage, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);
    if (context < 0)
        return fail(why, errno, "open the tmpfs of a sandbox");
    return configure(context, bytes, FSCONFIG_CMD_RECONFIGURE, why);
}

uint64_t storage_used_bytes(int storage)
{
    struct statfs status;
    if (storage < 0 || fstatfs(storage, &status) < 0)
        return 0;
    return (uint64_t)(status.f_blocks - status.f_bfree) * (uint64_t)status.f_bsize;
}
