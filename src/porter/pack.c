#include "porter/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "husk/confine.h"
#include "porter/tree.h"

struct pack {
    struct reply *reply;
    struct archive *archive;
    struct porter_end *end;
    int error; /* of sending */
};

static ssize_t on_block(struct archive *archive, void *user, const void *data, size_t length)
{
    struct pack *pack = user;
    int r = reply_data(pack->reply, data, length);
    if (r == 0)
        return (ssize_t)length;
    pack->error = r;
    archive_set_error(archive, -r, "huskd does not take it");
    return -1;
}

/* Its content, as far as it still is as long as it was. */
static bool add_content(struct pack *pack, int fd, uint64_t size)
{
    char block[PORTER_BLOCK_BYTES];
    while (size > 0) {
        ssize_t n = read_some(fd, block, size < sizeof block ? size : sizeof block);
        if (n <= 0)
            break;
        if (archive_write_data(pack->archive, block, (size_t)n) < 0)
            return false;
        size -= (uint64_t)n;
        pack->end->bytes += (uint64_t)n;
    }
    return archive_write_finish_entry(pack->archive) >= ARCHIVE_WARN;
}

static void describe(struct archive_entry *entry, const char *path, const struct stat *status)
{
    archive_entry_copy_pathname(entry, path);
    archive_entry_set_mode(entry, status->st_mode & (S_IFMT | 0777));
    archive_entry_set_mtime(entry, status->st_mtime, status->st_mtim.tv_nsec);
    archive_entry_set_uid(entry, SANDBOX_USER_ID);
    archive_entry_set_gid(entry, SANDBOX_USER_ID);
    archive_entry_copy_uname(entry, "user");
    archive_entry_copy_gname(entry, "user");
}

static bool add_link(struct pack *pack, struct archive_entry *entry, const struct tree_entry *found)
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(found->folder, found->name, target, sizeof target - 1);
    if (length < 0)
        return true;
    target[length] = '\0';
    archive_entry_copy_symlink(entry, target);
    return archive_write_header(pack->archive, entry) >= ARCHIVE_WARN;
}

/* What it was when it was looked at need not be what is opened: a pipe is opened without waiting for anybody, and not packed. */
static bool add_file(struct pack *pack, struct archive_entry *entry, const struct tree_entry *found)
{
    struct stat status;
    _cleanup_close_ int fd = openat(found->folder, found->name,
                                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return true;
    archive_entry_set_size(entry, status.st_size);
    return archive_write_header(pack->archive, entry) >= ARCHIVE_WARN &&
           add_content(pack, fd, (uint64_t)status.st_size);
}

static bool visit(const struct tree_entry *found, void *user)
{
    struct pack *pack = user;
    mode_t mode = found->status.st_mode;
    if (!S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode))
        return true;
    struct archive_entry *entry = archive_entry_new();
    if (!entry)
        return false;
    describe(entry, found->path, &found->status);
    bool good;
    if (S_ISREG(mode))
        good = add_file(pack, entry, found);
    else if (S_ISLNK(mode))
        good = add_link(pack, entry, found);
    else
        good = archive_write_header(pack->archive, entry) >= ARCHIVE_WARN;
    archive_entry_free(entry);
    pack->end->entries++;
    if (!good && pack->error == 0)
        pack->error = -EIO;
    return good;
}

/* The folder itself, which may be empty. */
static bool add_top(struct pack *pack, int folder, const char *prefix)
{
    struct stat status;
    struct archive_entry *entry = *prefix ? archive_entry_new() : NULL;
    if (!entry)
        return !*prefix;
    if (fstat(folder, &status) < 0)
        status = (struct stat){.st_mode = S_IFDIR | 0755};
    describe(entry, prefix, &status);
    bool good = archive_write_header(pack->archive, entry) >= ARCHIVE_WARN;
    archive_entry_free(entry);
    pack->end->entries++;
    return good;
}

static int open_archive(struct pack *pack)
{
    struct archive *archive = pack->archive;
    if (!archive || archive_write_set_format_pax_restricted(archive) < ARCHIVE_WARN ||
        archive_write_set_bytes_per_block(archive, PORTER_BLOCK_BYTES) < ARCHIVE_WARN ||
        archive_write_set_bytes_in_last_block(archive, 1) < ARCHIVE_WARN ||
        archive_write_open(archive, pack, NULL, on_block, NULL) < ARCHIVE_WARN)
        return -ENOMEM;
    return 0;
}

int pack_folder(struct reply *reply, int folder, const struct porter_request *request,
                const char *name, struct porter_end *end, struct failure *why)
{
    struct pack pack = {.reply = reply, .archive = archive_write_new(), .end = end};
    _cleanup_free_ char *prefix = must_format("%s%s", name, *name ? "/" : "");
    struct tree_walk walk = {.prefix = prefix,
                             .skip_internals = request->flags & PORTER_WHOLE_HOME,
                             .visit = visit,
                             .user = &pack};
    int r = open_archive(&pack);
    if (r == 0 && faccessat(folder, ".", R_OK, 0) < 0)
        r = -errno;
    if (r == 0)
        r = reply_begin(reply, false);
    if (r == 0 && !add_top(&pack, folder, prefix))
        r = pack.error ? pack.error : -EIO;
    if (r == 0)
        r = tree_walk(&walk, folder);
    /* What is too deep would be missing, and nobody could tell. */
    if (r == 0 && walk.too_deep)
        pack.error = -ENAMETOOLONG;
    if (r == 0)
        r = pack.error;
    if (r == 0 && archive_write_close(pack.archive) < ARCHIVE_WARN)
        r = pack.error ? pack.error : -EIO;
    if (pack.archive && r < 0)
        (void)archive_write_fail(pack.archive);
    (void)archive_write_free(pack.archive);
    return r < 0 ? fail(why, r, "The folder cannot be packed") : 0;
}
