#include "fetcher/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/text.h"
#include "husk/confine.h"
#include "husk/fetch_protocol.h"
#include "husk/limits.h"

#if defined(__SANITIZE_ADDRESS__)
#define MEMORY_LIMIT 0
#else
#define MEMORY_LIMIT FETCHER_MEMORY_BYTES
#endif

#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* Flags can only be added: a remount would have to repeat those that the host has locked. */
static int restrict_mount(const char *path, uint64_t flags, struct failure *why)
{
    struct mount_attr attributes = {.attr_set = flags};
    if (mount_setattr(AT_FDCWD, path, 0, &attributes, sizeof attributes) < 0)
        return fail(why, errno, "restrict the mount %s", path);
    return 0;
}

static int bind_at(const char *source, const char *root, const char *place, uint64_t flags,
                   struct failure *why)
{
    char target[PATH_MAX];
    int r = format_text(target, sizeof target, "%s%s", root, place);
    if (r < 0 || mount(source, target, NULL, MS_BIND, NULL) < 0)
        return fail(why, errno, "mount %s", source);
    return restrict_mount(target, flags, why);
}

static int mount_at(const char *type, const char *root, const char *place, const char *options,
                    struct failure *why)
{
    char target[PATH_MAX];
    int r = format_text(target, sizeof target, "%s%s", root, place);
    if (r < 0 || mount(type, target, type, MS_NOSUID | MS_NODEV, options) < 0)
        return fail(why, errno, "mount a %s on %s", type, place);
    return 0;
}

/* A copy of a host's file that the image has one of its own of, over which it is mounted. */
static int copy_over(const char *path, const char *root, struct failure *why)
{
    static char text[64 * KIB];
    char copy[PATH_MAX];
    ssize_t length = read_file_at(AT_FDCWD, path, text, sizeof text);
    if (length < 0)
        return length == -ENOENT ? 0 : fail(why, (int)length, "read %s", path);
    (void)snprintf(copy, sizeof copy, "%s/tmp/%s", root, strrchr(path, '/') + 1);
    _cleanup_close_ int fd = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || write_all(fd, text, (size_t)length) < 0)
        return fail(why, errno, "write %s", copy);
    return bind_at(copy, root, path, READ_ONLY, why);
}

static int make_devices(const char *root, struct failure *why)
{
    static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"};
    int r = mount_at("tmpfs", root, "/dev", "mode=755,size=16k,nr_inodes=16", why);
    for (size_t i = 0; r == 0 && i < ARRAY_LENGTH(devices); i++) {
        char path[PATH_MAX];
        (void)snprintf(path, sizeof path, "%s%s", root, devices[i]);
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        r = fd < 0
                ? fail(why, errno, "make %s", path)
                : bind_at(devices[i], root, devices[i], MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, why);
    }
    return r;
}

/* The top folder of the image is closed to everybody but P's root, so the parts of it are put together below another. */
static int bind_image(const char *image, const char *root, struct failure *why)
{
    static const char *const parts[] = {"/usr", "/opt", "/etc"};
    static const char *const links[] = {"bin", "lib", "lib64", "sbin"};
    static const char *const folders[] = {"/tmp", "/proc", "/dev", "/mnt"};
    char path[PATH_MAX], target[PATH_MAX];
    int r = mount_at("tmpfs", root, "", "mode=755,size=16k,nr_inodes=32", why);
    for (size_t i = 0; r == 0 && i < ARRAY_LENGTH(parts); i++) {
        (void)snprintf(path, sizeof path, "%s%s", root, parts[i]);
        (void)snprintf(target, sizeof target, "%s%s", image, parts[i]);
        r = mkdir(path, 0755) < 0 ? fail(why, errno, "make %s", path)
                                  : bind_at(target, root, parts[i], READ_ONLY, why);
    }
    for (size_t i = 0; r == 0 && i < ARRAY_LENGTH(links); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", root, links[i]);
        (void)snprintf(target, sizeof target, "usr/%s", links[i]);
        r = symlink(target, path) < 0 ? fail(why, errno, "link %s", path) : 0;
    }
    for (size_t i = 0; r == 0 && i < ARRAY_LENGTH(folders); i++) {
        (void)snprintf(path, sizeof path, "%s%s", root, folders[i]);
        r = mkdir(path, 0755) < 0 ? fail(why, errno, "make %s", path) : 0;
    }
    return r;
}

static int build(const char *image, const char *cache, const char *root, struct failure *why)
{
    char options[96];
    (void)snprintf(options, sizeof options, "mode=0700,size=%u,nr_inodes=4096,uid=%d,gid=%d",
                   (unsigned)FETCHER_TMP_BYTES, FETCHER_ID, FETCHER_ID);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return fail(why, errno, "make mounts private");
    int r = bind_image(image, root, why);
    if (r == 0)
        r = mount_at("tmpfs", root, "/tmp", options, why);
    if (r == 0)
        r = mount_at("proc", root, "/proc", NULL, why);
    if (r == 0)
        r = make_devices(root, why);
    if (r == 0)
        r = bind_at(cache, root, "/mnt", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC,
                    why);
    if (r == 0)
        r = copy_over("/etc/resolv.conf", root, why);
    if (r == 0)
        r = copy_over("/etc/hosts", root, why);
    return r < 0 ? r : restrict_mount(root, MOUNT_ATTR_RDONLY, why);
}

static int pivot(const char *root, struct failure *why)
{
    if (chdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
        return fail(why, errno, "make %s the root", root);
    if (umount2(".", MNT_DETACH) < 0 || chdir("/tmp") < 0)
        return fail(why, errno, "leave the host's files");
    return 0;
}

int tree_enter(const char *image, const char *cache, const char *mount_point, struct failure *why)
{
    int r = build(image, cache, mount_point, why);
    if (r == 0)
        r = pivot(mount_point, why);
    if (r < 0)
        return r;
    _cleanup_close_ int status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (status < 0)
        return fail(why, errno, "open /proc/self/status");
    (void)umask(022);
    struct confinement how = {.uid = FETCHER_ID,
                              .filter_fd = FETCH_FILTER_FD,
                              .status_fd = status,
                              .processes = MAX_FETCHER_THREADS,
                              .memory_bytes = MEMORY_LIMIT,
                              .score_adjustment_fd = -1};
    r = confine(&how, why);
    if (r < 0)
        return r;
    /* Cleared by the change of ids. The keeper may have ended in between: then nobody sends a job, and that is the end too. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0)
        return fail(why, errno, "end with the keeper");
    (void)close_fd(FETCH_FILTER_FD);
    return 0;
}
