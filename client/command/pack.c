#include "command/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "command/link_path.h"
#include "command/walk.h"
#include "husk/limits.h"

enum {
    PACK_BLOCK_BYTES = 64 * KIB
};

struct pack {
    char *shown; /* the folder, for sentences */
    char *name;
    int folder;
    char **excludes;
    size_t exclude_count;
    struct walk *walk;
    struct archive *archive;
    struct buffer ready; /* of the archive, not yet read */
    int file;            /* whose content comes next; -1: none */
    uint64_t rest;       /* of it */
    bool over;           /* the archive has its end */
    bool unwanted;       /* nobody reads what is still written */
    struct pack_counts counts;
    struct failure why;
};

/* --- walking ------------------------------------------------------------------------------------- */

static bool is_excluded(const struct pack *pack, const struct walk_entry *entry)
{
    for (size_t i = 0; *entry->path && i < pack->exclude_count; i++) {
        if (fnmatch(pack->excludes[i], entry->name, 0) == 0 ||
            fnmatch(pack->excludes[i], entry->path, FNM_PATHNAME) == 0)
            return true;
    }
    return false;
}

static int unreadable(const struct pack *pack, const char *path, int code, struct failure *why)
{
    if (code == -E2BIG)
        return fail_plain(why, E2BIG,
                          "'%.150s' has more than %d files: leave some out with --exclude",
                          pack->shown, MAX_UNPACKED_ENTRIES);
    return fail(why, code, "'%.100s%s%.100s' cannot be read", pack->shown, *path ? "/" : "", path);
}

/* The next one that is not excluded: 1, 0 at the end, -errno. Folders come once, before what is in them. */
static int next_entry(const struct pack *pack, struct walk *walk, struct walk_entry *ret,
                      struct failure *why)
{
    int r;
    while ((r = walk_next(walk, ret)) > 0 && is_excluded(pack, ret))
        walk_skip(walk);
    return r < 0 ? unreadable(pack, ret->path, r, why) : r;
}

DEFINE_CLEANUP(struct walk, walk_free);

static int look_at_all(struct pack *pack, struct failure *why)
{
    _cleanup_(walk_free_cleanup) struct walk *walk = walk_new(pack->folder);
    uint64_t entries = 0;
    struct walk_entry entry;
    int r;
    while ((r = next_entry(pack, walk, &entry, why)) > 0) {
        if (S_ISREG(entry.status.st_mode))
            pack->counts.total_bytes += (uint64_t)entry.status.st_size;
        if (++entries > MAX_UNPACKED_ENTRIES)
            return unreadable(pack, "", -E2BIG, why);
    }
    return r;
}

/* --- packing ------------------------------------------------------------------------------------- */

static ssize_t on_block(struct archive *archive, void *user, const void *data, size_t length)
{
    struct pack *pack = user;
    if (!pack->unwanted && buffer_append(&pack->ready, data, length) == 0)
        return (ssize_t)length;
    archive_set_error(archive, ENOMEM, "no memory");
    return -1;
}

static int archive_failed(struct pack *pack)
{
    return fail_plain(&pack->why, EIO, "'%.150s' cannot be packed: %s", pack->shown,
                      archive_error_string(pack->archive));
}

static void leave_out(struct pack *pack, const char *path)
{
    if (pack->counts.left_out++ == 0)
        (void)snprintf(pack->counts.first_left_out, sizeof pack->counts.first_left_out, "%s", path);
}

/* Everything belongs to the sandbox's user in any case; who owns it here is nobody's business. */
static int add_header(struct pack *pack, const char *path, const struct stat *status,
                      const char *target)
{
    _cleanup_free_ char *name =
        must_format("%s%s%s", pack->name, *pack->name && *path ? "/" : "", path);
    if (!*name)
        return 0;
    struct archive_entry *entry = archive_entry_new();
    if (!entry)
        return fail(&pack->why, ENOMEM, "'%.150s' cannot be packed", path);
    archive_entry_copy_pathname(entry, name);
    archive_entry_set_mode(entry, status->st_mode & (S_IFMT | 0777));
    archive_entry_set_mtime(entry, status->st_mtime, status->st_mtim.tv_nsec);
    if (target)
        archive_entry_copy_symlink(entry, target);
    else if (S_ISREG(status->st_mode))
        archive_entry_set_size(entry, status->st_size);
    bool good = archive_write_header(pack->archive, entry) >= ARCHIVE_WARN;
    archive_entry_free(entry);
    pack->counts.entries++;
    return good ? 0 : archive_failed(pack);
}

static int add_link(struct pack *pack, const struct walk_entry *entry)
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(entry->folder, entry->name, target, sizeof target - 1);
    if (length < 0)
        return unreadable(pack, entry->path, -errno, &pack->why);
    target[length] = '\0';
    if (!link_stays(entry->path, target)) {
        leave_out(pack, entry->path);
        return 0;
    }
    return add_header(pack, entry->path, &entry->status, target);
}

static int begin_file(struct pack *pack, const struct walk_entry *entry)
{
    struct stat status;
    _cleanup_close_ int fd = openat(entry->folder, entry->name,
                                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        return unreadable(pack, entry->path, -errno, &pack->why);
    if (!S_ISREG(status.st_mode)) {
        leave_out(pack, entry->path);
        return 0;
    }
    int r = add_header(pack, entry->path, &status, NULL);
    if (r < 0)
        return r;
    pack->file = TAKE_DESCRIPTOR(fd);
    pack->rest = (uint64_t)status.st_size;
    return 0;
}

/* A file that became shorter meanwhile is filled up with zeros, as tar does. */
static int continue_file(struct pack *pack)
{
    char block[PACK_BLOCK_BYTES];
    size_t wanted = pack->rest < sizeof block ? (size_t)pack->rest : sizeof block;
    ssize_t n = wanted ? read_some(pack->file, block, wanted) : 0;
    if (n < 0)
        return fail(&pack->why, (int)-n, "A file in '%.150s' cannot be read", pack->shown);
    if (n > 0 && archive_write_data(pack->archive, block, (size_t)n) < 0)
        return archive_failed(pack);
    pack->rest -= (uint64_t)n;
    pack->counts.bytes += (uint64_t)n;
    if (n > 0 && pack->rest > 0)
        return 0;
    pack->file = close_fd(pack->file);
    return archive_write_finish_entry(pack->archive) < ARCHIVE_WARN ? archive_failed(pack) : 0;
}

static int begin_next(struct pack *pack)
{
    struct walk_entry entry;
    int r = next_entry(pack, pack->walk, &entry, &pack->why);
    if (r < 0)
        return r;
    if (r == 0) {
        pack->over = true;
        return archive_write_close(pack->archive) < ARCHIVE_WARN ? archive_failed(pack) : 0;
    }
    switch (entry.status.st_mode & S_IFMT) {
    case S_IFDIR:
        return add_header(pack, entry.path, &entry.status, NULL);
    case S_IFREG:
        return begin_file(pack, &entry);
    case S_IFLNK:
        return add_link(pack, &entry);
    default:
        leave_out(pack, entry.path);
        return 0;
    }
}

ptrdiff_t pack_read(void *data, size_t room, void *user)
{
    struct pack *pack = user;
    while (pack->why.code == 0 && pack->ready.length == 0 && !pack->over)
        (void)(pack->file >= 0 ? continue_file(pack) : begin_next(pack));
    if (pack->why.code)
        return -pack->why.code;
    size_t length = pack->ready.length < room ? pack->ready.length : room;
    if (length > 0)
        memcpy(data, pack->ready.data, length);
    buffer_consume(&pack->ready, length);
    return (ptrdiff_t)length;
}

/* --- making -------------------------------------------------------------------------------------- */

DEFINE_CLEANUP(struct pack, pack_free);

static void copy_order(struct pack *pack, const struct pack_order *order)
{
    pack->name = must_copy(order->name ? order->name : "");
    pack->excludes = must_alloc((order->exclude_count + 1) * sizeof *pack->excludes);
    for (size_t i = 0; i < order->exclude_count; i++)
        pack->excludes[pack->exclude_count++] = must_copy(order->excludes[i]);
}

static int open_archive(struct pack *pack)
{
    pack->archive = archive_write_new();
    if (!pack->archive || archive_write_set_format_pax_restricted(pack->archive) < ARCHIVE_WARN ||
        archive_write_set_bytes_per_block(pack->archive, PACK_BLOCK_BYTES) < ARCHIVE_WARN ||
        archive_write_set_bytes_in_last_block(pack->archive, 1) < ARCHIVE_WARN ||
        archive_write_open(pack->archive, pack, NULL, on_block, NULL) < ARCHIVE_WARN)
        return -ENOMEM;
    return 0;
}

int pack_new(const struct pack_order *order, struct pack **ret, struct failure *why)
{
    _cleanup_(pack_free_cleanup) struct pack *pack = must_alloc(sizeof *pack);
    pack->file = -1;
    copy_order(pack, order);
    /* The link to a folder, named by the user, means the folder; links below it stay links. From here on only this descriptor counts. */
    pack->folder = open(order->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (pack->folder < 0)
        return fail(why, errno, "'%.150s' cannot be read", order->folder);
    pack->shown = realpath(order->folder, NULL);
    if (!pack->shown)
        pack->shown = must_copy(order->folder);
    int r = look_at_all(pack, why);
    if (r < 0)
        return r;
    if (open_archive(pack) < 0)
        return fail(why, ENOMEM, "'%.150s' cannot be packed", pack->shown);
    pack->walk = walk_new(pack->folder);
    *ret = TAKE_POINTER(pack);
    return 0;
}

struct pack *pack_free(struct pack *pack)
{
    if (!pack)
        return NULL;
    pack->unwanted = true; /* archive_write_fail() would lose memory */
    (void)archive_write_free(pack->archive);
    walk_free(pack->walk);
    close_fd(pack->file);
    close_fd(pack->folder);
    buffer_free(&pack->ready);
    for (size_t i = 0; i < pack->exclude_count; i++)
        free(pack->excludes[i]);
    free(pack->excludes);
    free(pack->shown);
    free(pack->name);
    free(pack);
    return NULL;
}

const char *pack_failure(const struct pack *pack)
{
    return pack->why.code ? pack->why.text : NULL;
}

const struct pack_counts *pack_counts(const struct pack *pack)
{
    return &pack->counts;
}
