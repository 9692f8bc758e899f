#include "keeper/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/text.h"
#include "husk/fetch_protocol.h"

/* What the host's /proc tells about the host, or lets root of the host change. */
static const char *const hidden_files[] = {
    "/proc/cmdline",    "/proc/diskstats",   "/proc/partitions",    "/proc/interrupts",
    "/proc/softirqs",   "/proc/buddyinfo",   "/proc/mtrr",          "/proc/kcore",
    "/proc/keys",       "/proc/key-users",   "/proc/timer_list",    "/proc/sched_debug",
    "/proc/kmsg",       "/proc/kallsyms",    "/proc/latency_stats", "/proc/config.gz",
    "/proc/kpagecount", "/proc/kpageflags",  "/proc/kpagecgroup",   "/proc/pagetypeinfo",
    "/proc/slabinfo",   "/proc/vmallocinfo", "/proc/modules",       "/proc/iomem",
    "/proc/ioports",    "/proc/swaps",       "/proc/zoneinfo",      "/proc/locks",
    "/proc/consoles"};
static const char *const hidden_directories[] = {"/proc/acpi",   "/proc/scsi",     "/proc/driver",
                                                 "/proc/asound", "/proc/pressure", "/proc/bus"};
static const char *const read_only[] = {"/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
                                        "/proc/tty"};
static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};

/* mount(2) with the failure filled in. */
static int attach(const char *source, const char *target, const char *type, unsigned long flags,
                  const char *options, struct failure *why)
{
    if (mount(source, target, type, flags, options) < 0)
        return fail(why, errno, "mount %s on %s", type ? type : "a folder", target);
    return 0;
}

static int mount_overlay(const struct rootfs *rootfs, char *root, size_t size, struct failure *why)
{
    const char *base = rootfs->mount_point;
    char options[256];
    if (move_mount(rootfs->storage, "", AT_FDCWD, base, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return fail(why, errno, "mount the storage on %s", base);
    if (format_text(root, size, "%s/root", base) < 0)
        return fail(why, ENAMETOOLONG, "path of the sandbox's files");
    /* By descriptors: /proc/mounts shows a sandbox the very words that stand here, and paths of the host are not its business. */
    _cleanup_close_ int image = open(rootfs->image, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (image < 0)
        return fail(why, errno, "open the image %s", rootfs->image);
    (void)snprintf(options, sizeof options,
                   "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d/upper,"
                   "workdir=/proc/self/fd/%d/work,userxattr",
                   image, rootfs->storage, rootfs->storage);
    return attach("overlay", root, "overlay", MS_NOSUID | MS_NODEV, options, why);
}

static int bind_mount(const char *source, const char *target, unsigned long flags,
                      struct failure *why)
{
    int r = attach(source, target, NULL, MS_BIND, NULL, why);
    if (r >= 0 && flags)
        r = attach(target, target, NULL, MS_BIND | MS_REMOUNT | flags, NULL, why);
    return r;
}

/* Folders of the storage inside the tree. */
static int bind_storage(const char *base, struct failure *why)
{
    static const struct {
        const char *from, *to;
    } binds[] = {{"home", "root/home/user"}, {"run", "root/run/husk"}};
    for (size_t i = 0; i < ARRAY_LENGTH(binds); i++) {
        char from[PATH_MAX], to[PATH_MAX];
        (void)snprintf(from, sizeof from, "%s/%s", base, binds[i].from);
        (void)snprintf(to, sizeof to, "%s/%s", base, binds[i].to);
        int r = bind_mount(from, to, 0, why);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Wheels that were fetched for any sandbox. Flags are added: a remount would have to repeat those that the host has locked. */
static int bind_wheels(const char *cache, const char *root, struct failure *why)
{
    char from[PATH_MAX], to[PATH_MAX];
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
                                                MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
    (void)snprintf(from, sizeof from, "%s/" CACHE_WHEELS, cache);
    (void)snprintf(to, sizeof to, "%s/opt/husk/wheels", root);
    if (access(to, F_OK) < 0 || access(from, F_OK) < 0)
        return 0; /* an image that cannot install, or somebody has removed the cache */
    int r = bind_mount(from, to, 0, why);
    if (r == 0 && mount_setattr(AT_FDCWD, to, 0, &attributes, sizeof attributes) < 0)
        r = fail(why, errno, "make %s read-only", to);
    return r;
}

static int make_device(const char *root, const char *name, struct failure *why)
{
    char source[64], target[PATH_MAX];
    (void)snprintf(source, sizeof source, "/dev/%s", name);
    (void)snprintf(target, sizeof target, "%s/dev/%s", root, name);
    int fd = open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return fail(why, errno, "make %s", target);
    close(fd);
    return bind_mount(source, target, MS_NOSUID | MS_NOEXEC, why);
}

/* A fresh tmpfs with the harmless devices of the host, terminals and shared memory of the sandbox's
 * own. */
static int make_dev(const char *base, const char *root, struct failure *why)
{
    static const struct {
        const char *name, *target;
    } links[] = {{"fd", "/proc/self/fd"},
                 {"stdin", "/proc/self/fd/0"},
                 {"stdout", "/proc/self/fd/1"},
                 {"stderr", "/proc/self/fd/2"},
                 {"ptmx", "pts/ptmx"}};
    char path[PATH_MAX], source[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/dev", root);
    int r = attach("tmpfs", path, "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755,size=64k,nr_inodes=64",
                   why);
    for (size_t i = 0; r >= 0 && i < ARRAY_LENGTH(devices); i++)
        r = make_device(root, devices[i], why);
    for (size_t i = 0; r >= 0 && i < ARRAY_LENGTH(links); i++) {
        (void)snprintf(path, sizeof path, "%s/dev/%s", root, links[i].name);
        if (symlink(links[i].target, path) < 0)
            r = fail(why, errno, "link %s", path);
    }
    if (r < 0)
        return r;
    (void)snprintf(path, sizeof path, "%s/dev/pts", root);
    if (mkdir(path, 0755) < 0)
        return fail(why, errno, "make %s", path);
    r = attach("devpts", path, "devpts", MS_NOSUID | MS_NOEXEC,
               "newinstance,ptmxmode=0666,mode=0620,max=64", why);
    if (r < 0)
        return r;
    (void)snprintf(path, sizeof path, "%s/dev/shm", root);
    (void)snprintf(source, sizeof source, "%s/shm", base);
    if (mkdir(path, 0755) < 0)
        return fail(why, errno, "make %s", path);
    return bind_mount(source, path, MS_NOSUID | MS_NODEV | MS_NOEXEC, why);
}

/* Old and new root on one spot, then the old one goes: no directory for it is needed. */
static int pivot(const char *root, struct failure *why)
{
    if (chdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
        return fail(why, errno, "make %s the root", root);
    if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return fail(why, errno, "leave the host's files");
    return 0;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int mask_proc(struct failure *why)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < ARRAY_LENGTH(hidden_files); i++) {
        if (exists(hidden_files[i]))
            r = bind_mount("/dev/null", hidden_files[i], 0, why);
    }
    for (size_t i = 0; r >= 0 && i < ARRAY_LENGTH(hidden_directories); i++) {
        if (exists(hidden_directories[i]))
            r = attach("tmpfs", hidden_directories[i], "tmpfs",
                       MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=0,nr_inodes=2,mode=555",
                       why);
    }
    for (size_t i = 0; r >= 0 && i < ARRAY_LENGTH(read_only); i++) {
        if (exists(read_only[i]))
            r = bind_mount(read_only[i], read_only[i], MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
                           why);
    }
    return r;
}

int rootfs_enter(const struct rootfs *rootfs, struct failure *why)
{
    char root[PATH_MAX / 2], proc[PATH_MAX];
    int r = attach(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL, why);
    if (r >= 0)
        r = mount_overlay(rootfs, root, sizeof root, why);
    if (r >= 0)
        r = bind_storage(rootfs->mount_point, why);
    if (r >= 0 && rootfs->cache)
        r = bind_wheels(rootfs->cache, root, why);
    if (r < 0)
        return r;
    (void)snprintf(proc, sizeof proc, "%s/proc", root);
    r = attach("proc", proc, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL, why);
    if (r >= 0)
        r = make_dev(rootfs->mount_point, root, why);
    if (r >= 0)
        r = pivot(root, why);
    if (r >= 0)
        r = mask_proc(why);
    return r;
}
