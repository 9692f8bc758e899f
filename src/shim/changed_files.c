#include "shim/changed_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/text.h"
#include "husk/limits.h"
#include "shim/tree_watch.h"

enum {
    LISTING_BYTES = 64 * KIB,
    LOOK_AT_CLOCK = 256, /* entries between two looks */
    NANOSECONDS = 1000000000
};

/* --- moments ---------------------------------------------------------------------------------- */

static int64_t nanoseconds(struct timespec time)
{
    return (int64_t)time.tv_sec * NANOSECONDS + time.tv_nsec;
}

/* The stamp of a file that changes now. Since Linux 6.13 a file whose stamp somebody has looked at gets a fine one with its
 * next change, and then no file gets an older one any more: that separates what was before from what comes. Older kernels
 * stamp with the coarse clock. A memory file is stamped as a file on a tmpfs is, since it is one. */
static bool stamp_of_kernel(struct timespec *ret)
{
    _cleanup_close_ int fd = memfd_create("husk-moment", MFD_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0 || fchmod(fd, 0600) < 0 || fstat(fd, &status) < 0)
        return false;
    *ret = status.st_ctim;
    return true;
}

/* The wall clock is read before the steady one here and after it in floor_of(): being delayed between the two then never looks
 * like a clock that was set back. */
struct moment moment_now(void)
{
    struct moment now;
    if (!stamp_of_kernel(&now.stamp))
        (void)clock_gettime(CLOCK_REALTIME_COARSE, &now.stamp);
    (void)clock_gettime(CLOCK_REALTIME, &now.wall);
    (void)clock_gettime(CLOCK_BOOTTIME, &now.steady);
    return now;
}

/* The earliest stamp that a change since then can have. */
static int64_t floor_of(const struct moment *since)
{
    struct timespec wall, steady;
    (void)clock_gettime(CLOCK_BOOTTIME, &steady);
    (void)clock_gettime(CLOCK_REALTIME, &wall);
    int64_t passed = nanoseconds(steady) - nanoseconds(since->steady);
    int64_t step = nanoseconds(wall) - nanoseconds(since->wall) - passed;
    return nanoseconds(since->stamp) + (step < 0 ? step : 0);
}

/* --- the walk --------------------------------------------------------------------------------- */

/* A folder that waits for its turn; its parent is open until then. */
struct folder {
    struct folder *next;
    struct watched_folder *watched; /* NULL: it is not; all below it is looked at */
    unsigned depth;                 /* 1: in the working directory */
    char name[];
};

struct walk {
    int64_t floor;
    uint64_t deadline_ms;
    size_t looked_at;
    size_t waiting_count;
    struct folder *waiting; /* last in, first out: children come before siblings of their parent */
    int open[MAX_WALKED_DEPTH + 1];    /* the way down to where we are */
    size_t ends[MAX_WALKED_DEPTH + 1]; /* length of the path of each */
    unsigned depth;
    char path[MAX_FILE_PATH_BYTES + 1];
    bool over;                      /* a bound was reached */
    struct tree_watch *watch;       /* NULL: look at everything */
    struct watched_folder *watched; /* the folder we are in; NULL: not watched */
    struct folder_reading reading;  /* the same */
    struct changed_files *found;
    char listing[LISTING_BYTES] __attribute__((aligned(8)));
};

/* Put a name behind the path of the folder we are in. False: too long, or not UTF-8. */
static bool enter_name(struct walk *walk, const char *name)
{
    size_t end = walk->ends[walk->depth], length = strlen(name);
    if (end + length > MAX_FILE_PATH_BYTES || !utf8_valid(name, length)) {
        walk->found->incomplete = true;
        return false;
    }
    memcpy(walk->path + end, name, length + 1);
    return true;
}

static int report(struct walk *walk, const char *name, const struct statx *status)
{
    struct changed_files *found = walk->found;
    if (found->count == MAX_CHANGED_FILES) {
        found->incomplete = true;
        walk->over = true;
        return 0;
    }
    if (!enter_name(walk, name))
        return 0;
    if (!found->files) {
        found->files = calloc(MAX_CHANGED_FILES, sizeof *found->files);
        if (!found->files)
            return -ENOMEM;
    }
    char *path = strdup(walk->path);
    if (!path)
        return -ENOMEM;
    struct timespec birth = {.tv_sec = status->stx_btime.tv_sec,
                             .tv_nsec = status->stx_btime.tv_nsec};
    found->files[found->count++] = (struct changed_file){
        .path = path,
        .size = status->stx_size,
        .created = status->stx_mask & STATX_BTIME && nanoseconds(birth) >= walk->floor};
    return 0;
}

static int look_at_file(struct walk *walk, const char *name)
{
    struct statx status;
    if (statx(walk->open[walk->depth], name,
              AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT,
              STATX_TYPE | STATX_SIZE | STATX_CTIME | STATX_BTIME | STATX_NLINK | STATX_INO,
              &status) < 0)
        return 0; /* it is gone */
    struct timespec change = {.tv_sec = status.stx_ctime.tv_sec,
                              .tv_nsec = status.stx_ctime.tv_nsec};
    walk->reading.links += linked_file(status.stx_ino, status.stx_nlink, nanoseconds(change));
    if (nanoseconds(change) < walk->floor || !S_ISREG(status.stx_mode))
        return 0;
    walk->reading.changed = true;
    return report(walk, name, &status);
}

static int remember_folder(struct walk *walk, const char *name, struct watched_folder *watched)
{
    if (walk->depth == MAX_WALKED_DEPTH || walk->waiting_count == MAX_WAITING_FOLDERS) {
        walk->found->incomplete = true;
        return 0;
    }
    size_t size = strlen(name) + 1;
    struct folder *folder = malloc(sizeof *folder + size);
    if (!folder)
        return -ENOMEM;
    folder->watched = watched;
    folder->depth = walk->depth + 1;
    memcpy(folder->name, name, size);
    folder->next = walk->waiting;
    walk->waiting = folder;
    walk->waiting_count++;
    return 0;
}

static int look_at_folder(struct walk *walk, const struct dirent64 *entry)
{
    struct watched_folder *watched = NULL;
    if (walk->watched) {
        int r = tree_watch_found(walk->watch, walk->watched, entry->d_name, entry->d_ino, &watched);
        if (r == 0)
            return 0; /* nothing happened in it */
        walk->reading.complete &= r > 0;
    }
    return remember_folder(walk, entry->d_name, watched);
}

static int look_at(struct walk *walk, const struct dirent64 *entry)
{
    const char *name = entry->d_name;
    if (name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0')))
        return 0;
    if (++walk->looked_at > MAX_WALKED_FILES ||
        (walk->looked_at % LOOK_AT_CLOCK == 0 && now_ms() >= walk->deadline_ms)) {
        walk->found->incomplete = true;
        walk->over = true;
        return 0;
    }
    if (entry->d_type == DT_REG)
        return look_at_file(walk, name);
    return entry->d_type == DT_DIR ? look_at_folder(walk, entry) : 0;
}

/* Everything in the folder we are in. */
static int list_all(struct walk *walk)
{
    for (;;) {
        ssize_t length = getdents64(walk->open[walk->depth], walk->listing, sizeof walk->listing);
        if (length < 0)
            return -errno;
        for (ssize_t at = 0; at < length && !walk->over;) {
            const struct dirent64 *entry =
                (const struct dirent64 *)(const void *)(walk->listing + at);
            int r = look_at(walk, entry);
            if (r < 0)
                return r;
            at += entry->d_reclen;
        }
        if (length == 0 || walk->over)
            return 0;
    }
}

/* The same, and tell the watch what it needs to know. Whatever makes the answer incomplete shall do so again. */
static int list_watched(struct walk *walk)
{
    bool incomplete = walk->found->incomplete;
    size_t looked_at = walk->looked_at;
    walk->found->incomplete = false;
    walk->reading = (struct folder_reading){.complete = true};
    if (walk->watched)
        tree_watch_set(walk->watch, walk->watched, walk->open[walk->depth]);
    int r = list_all(walk);
    walk->reading.complete &= r >= 0 && !walk->over && !walk->found->incomplete;
    walk->reading.entries = walk->looked_at - looked_at;
    tree_watch_settle(walk->watch, walk->watched, &walk->reading);
    walk->found->incomplete |= incomplete;
    return r;
}

/* What there is to be seen in the folder that was just opened. `watched` is what it was remembered as. */
static int look_into(struct walk *walk, struct watched_folder *watched)
{
    int r = 0;
    if (watched && !watched_folder_is(watched, walk->open[walk->depth]))
        watched = NULL;
    walk->watched = watched;
    if (!watched || watched_folder_due(watched))
        return walk->watch ? list_watched(walk) : list_all(walk);
    for (struct watched_folder *child = NULL;
         r >= 0 && (child = watched_folder_next(watched, child));)
        r = remember_folder(walk, watched_folder_name(child), child);
    return r;
}

static int open_folder(int parent, const char *name)
{
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
    int fd = (int)syscall(SYS_openat2, parent, name, &how, sizeof how);
    return fd < 0 ? -errno : fd;
}

static void leave_folders(struct walk *walk, unsigned depth)
{
    for (; walk->depth > depth; walk->depth--)
        close(walk->open[walk->depth]);
}

/* Into a folder that waited: up to its parent, which is still open, then down. Takes `folder`. */
static int visit(struct walk *walk, struct folder *folder)
{
    _cleanup_free_ struct folder *own = folder;
    leave_folders(walk, own->depth - 1);
    if (!enter_name(walk, own->name))
        return 0;
    int fd = open_folder(walk->open[walk->depth], own->name);
    if (fd < 0) {
        /* Gone, or something else by now: it will be told of when it changes again. */
        walk->found->incomplete |= fd != -ENOENT && fd != -ENOTDIR;
        return 0;
    }
    size_t end = walk->ends[walk->depth] + strlen(own->name);
    walk->depth++;
    walk->open[walk->depth] = fd;
    walk->path[end] = '/';
    walk->ends[walk->depth] = end + 1;
    int r = look_into(walk, own->watched);
    if (r < 0 && r != -ENOMEM) {
        walk->found->incomplete = true;
        r = 0;
    }
    return r;
}

static struct folder *next_folder(struct walk *walk)
{
    struct folder *folder = walk->waiting;
    if (folder) {
        walk->waiting = folder->next;
        walk->waiting_count--;
    }
    return folder;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct changed_file *)a)->path, ((const struct changed_file *)b)->path);
}

static int walk_from(struct walk *walk, int home_fd, struct watched_folder *watched)
{
    /* A descriptor of our own: the position in the directory belongs to it. */
    walk->open[0] = open_folder(home_fd, ".");
    if (walk->open[0] < 0)
        return walk->open[0];
    int r = look_into(walk, watched);
    while (r >= 0 && !walk->over && walk->waiting)
        r = visit(walk, next_folder(walk));
    leave_folders(walk, 0);
    close(walk->open[0]);
    for (struct folder *folder; (folder = next_folder(walk));)
        free(folder);
    return r;
}

/* All of it without watches; else what may have changed, and then all of it if that showed that more may have. */
static int walk_watched(struct walk *walk, int home_fd, struct tree_watch *watch)
{
    struct watched_folder *home = tree_watch_begin(watch, home_fd);
    walk->watch = home ? watch : NULL;
    int r = walk_from(walk, home_fd, home);
    if (r >= 0 && !walk->over && tree_watch_wants_all(watch)) {
        changed_files_free(walk->found);
        walk->looked_at = 0;
        r = walk_from(walk, home_fd, home);
    }
    tree_watch_end(watch, walk->looked_at, walk->over);
    return r;
}

int changed_files_find(int home_fd, struct tree_watch *watch, const struct moment *since,
                       struct changed_files *ret)
{
    struct changed_files found = {0};
    struct walk *walk = malloc(sizeof *walk);
    if (!walk)
        return -ENOMEM;
    memset(walk, 0, offsetof(struct walk, listing)); /* what the kernel fills need not be cleared */
    walk->found = &found;
    walk->floor = floor_of(since);
    walk->deadline_ms = now_ms() + WALK_MS;
    int r = watch ? walk_watched(walk, home_fd, watch) : walk_from(walk, home_fd, NULL);
    free(walk);
    if (r < 0) {
        changed_files_free(&found);
        return r;
    }
    if (found.count)
        qsort(found.files, found.count, sizeof *found.files, by_path);
    *ret = found;
    return 0;
}

void changed_files_free(struct changed_files *changed)
{
    for (size_t i = 0; i < changed->count; i++)
        free(changed->files[i].path);
    free(changed->files);
    *changed = (struct changed_files){0};
}
