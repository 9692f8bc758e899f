#include "porter/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "porter/path_walk.h"

enum {
    READ_BYTES = 64 * KIB,
    LOOK_AT_HUSKD = 64 /* entries between two looks whether it is still there */
};

struct unpack {
    struct reply *reply;
    struct archive *archive;
    uint64_t archive_bytes;
    int top;
    struct porter_end *end;
    struct failure *why;
};

static int bad(const struct unpack *unpack, const char *what)
{
    const char *said = archive_error_string(unpack->archive);
    return fail_plain(unpack->why, EBADMSG, "%s%s%.120s.", what, said ? ": " : "",
                      said ? said : "");
}

/* An error of the file system, not of the archive: it knows none of our descriptors. */
static int failed(const struct unpack *unpack, int error, const char *path)
{
    error = error < 0 ? -error : error;
    if (error == ENOTDIR || error == EISDIR || error == EEXIST)
        return fail_plain(unpack->why, EBADMSG,
                          "In the archive '%.150s' is a file or link as well as a folder.", path);
    return fail(unpack->why, error, "'%.150s' cannot be unpacked", path);
}

/* --- what is in it ------------------------------------------------------------------------------ */

/* Holes count as what they look like: a file of holes is a bomb for whoever reads it. */
static int count_bytes(struct unpack *unpack, uint64_t more)
{
    unpack->end->bytes += more;
    if (unpack->end->bytes > UNPACK_RATIO_FREE_BYTES &&
        unpack->end->bytes / MAX_UNPACK_RATIO > unpack->archive_bytes)
        return fail_plain(unpack->why, EBADMSG,
                          "The archive becomes more than %d times as large as it is; that is taken "
                          "for an attack.",
                          MAX_UNPACK_RATIO);
    return 0;
}

static int write_content(struct unpack *unpack, int fd, const char *path)
{
    uint64_t end = 0;
    for (;;) {
        const void *data;
        size_t length;
        la_int64_t offset;
        int r = archive_read_data_block(unpack->archive, &data, &length, &offset);
        if (r == ARCHIVE_EOF)
            return ftruncate(fd, (off_t)end) < 0 ? failed(unpack, errno, path) : 0;
        if (r < ARCHIVE_WARN || offset < 0)
            return bad(unpack, "The archive is damaged");
        uint64_t reached = (uint64_t)offset + length;
        r = count_bytes(unpack, reached > end ? reached - end : 0);
        if (r < 0)
            return r;
        end = reached > end ? reached : end;
        while (length > 0) {
            ssize_t n = pwrite(fd, data, length, (off_t)offset);
            if (n < 0 && errno == EINTR)
                continue;
            if (n <= 0)
                return failed(unpack, n < 0 ? errno : EIO, path);
            data = (const char *)data + n;
            length -= (size_t)n;
            offset += n;
        }
    }
}

static int make_file(struct unpack *unpack, int parent, const char *name,
                     struct archive_entry *entry)
{
    const char *path = archive_entry_pathname(entry);
    mode_t mode = (archive_entry_perm(entry) & 0777) | 0600;
    _cleanup_close_ int fd =
        openat(parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return failed(unpack, errno, path);
    int r = write_content(unpack, fd, path);
    if (r < 0)
        return r;
    if (archive_entry_mtime_is_set(entry)) {
        const struct timespec times[] = {{.tv_nsec = UTIME_NOW},
                                         {.tv_sec = archive_entry_mtime(entry)}};
        (void)futimens(fd, times);
    }
    return fchmod(fd, mode) < 0 ? failed(unpack, errno, path) : 0;
}

static int make_link(const struct unpack *unpack, int parent, const char *name,
                     struct archive_entry *entry)
{
    const char *path = archive_entry_pathname(entry);
    const char *target = archive_entry_symlink(entry);
    if (!target || !path_link_stays(path, target))
        return fail_plain(unpack->why, EBADMSG,
                          "The archive has a link that leads out of it: '%.100s' -> '%.80s'.", path,
                          target ? target : "");
    return symlinkat(target, parent, name) < 0 ? failed(unpack, errno, path) : 0;
}

/* To a file that was unpacked before. */
static int make_hard_link(const struct unpack *unpack, int parent, const char *name,
                          struct archive_entry *entry)
{
    const char *path = archive_entry_pathname(entry), *target = archive_entry_hardlink(entry);
    char target_name[MAX_FILE_NAME_BYTES + 1];
    struct stat status;
    int r = path_check(target, unpack->why);
    if (r < 0)
        return r;
    _cleanup_close_ int from = path_open_parent(unpack->top, target, false, target_name);
    if (from < 0 || fstatat(from, target_name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(status.st_mode))
        return fail_plain(unpack->why, EBADMSG,
                          "The archive has a hard link to what is not in it: '%.100s' -> '%.80s'.",
                          path, target);
    return linkat(from, target_name, parent, name, 0) < 0 ? failed(unpack, errno, path) : 0;
}

static int make_folder(const struct unpack *unpack, int parent, const char *name,
                       struct archive_entry *entry)
{
    const char *path = archive_entry_pathname(entry);
    if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
        return failed(unpack, errno, path);
    _cleanup_close_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return failed(unpack, ENOTDIR, path);
    return fchmod(fd, (archive_entry_perm(entry) & 0777) | 0700) < 0 ? failed(unpack, errno, path)
                                                                     : 0;
}

static int add_entry(struct unpack *unpack, struct archive_entry *entry)
{
    const char *path = archive_entry_pathname(entry);
    char name[MAX_FILE_NAME_BYTES + 1];
    if (!path)
        return fail_plain(unpack->why, EBADMSG, "A name in the archive is not UTF-8.");
    int r = path_check(path, unpack->why);
    if (r < 0)
        return r;
    mode_t type = archive_entry_filetype(entry);
    bool hard = archive_entry_hardlink(entry) != NULL;
    if (!hard && type != AE_IFREG && type != AE_IFDIR && type != AE_IFLNK)
        return fail_plain(unpack->why, EBADMSG,
                          "The archive has something that is no file, folder or link: '%.150s'.",
                          path);
    _cleanup_close_ int parent = path_open_parent(unpack->top, path, true, name);
    if (parent == -EISDIR && type == AE_IFDIR)
        return 0; /* "./" */
    if (parent < 0)
        return failed(unpack, parent, path);
    /* The last entry of a name counts, as with tar. */
    if (type != AE_IFDIR || hard)
        (void)unlinkat(parent, name, 0);
    if (hard)
        return make_hard_link(unpack, parent, name, entry);
    if (type == AE_IFLNK)
        return make_link(unpack, parent, name, entry);
    return type == AE_IFDIR ? make_folder(unpack, parent, name, entry)
                            : make_file(unpack, parent, name, entry);
}

static int add_entries(struct unpack *unpack)
{
    for (;;) {
        struct archive_entry *entry;
        int r = archive_read_next_header(unpack->archive, &entry);
        if (r == ARCHIVE_EOF)
            return 0;
        if (r < ARCHIVE_WARN)
            return bad(unpack, unpack->end->entries
                                   ? "The archive is damaged"
                                   : "This is no archive that can be read (tar, also compressed, "
                                     "or zip)");
        if (++unpack->end->entries > MAX_UNPACKED_ENTRIES)
            return fail_plain(unpack->why, EBADMSG, "The archive has more than %d entries.",
                              MAX_UNPACKED_ENTRIES);
        if (unpack->end->entries % LOOK_AT_HUSKD == 0 && reply_unwanted(unpack->reply))
            return fail_plain(unpack->why, EPIPE, "Nobody waits for it any more.");
        r = add_entry(unpack, entry);
        if (r < 0)
            return r;
    }
}

/* Only what people use: each format more is a parser more. */
static bool prepare(struct archive *archive)
{
    static int (*const parts[])(struct archive *) = {
        archive_read_support_format_tar,  archive_read_support_format_zip,
        archive_read_support_filter_gzip, archive_read_support_filter_bzip2,
        archive_read_support_filter_xz,   archive_read_support_filter_zstd,
    };
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        if (parts[i](archive) < ARCHIVE_WARN)
            return false;
    }
    return true;
}

int unpack_archive(struct reply *reply, int archive, int top, struct porter_end *end,
                   struct failure *why)
{
    struct stat status;
    if (fstat(archive, &status) < 0 || lseek(archive, 0, SEEK_SET) < 0)
        return fail(why, errno, "The archive cannot be read");
    struct unpack unpack = {.reply = reply,
                            .archive = archive_read_new(),
                            .archive_bytes = (uint64_t)status.st_size,
                            .top = top,
                            .end = end,
                            .why = why};
    if (!unpack.archive)
        return fail(why, ENOMEM, "The archive cannot be read");
    int r;
    if (!prepare(unpack.archive) ||
        archive_read_open_fd(unpack.archive, archive, READ_BYTES) < ARCHIVE_WARN)
        r = bad(&unpack, "This is no archive that can be read (tar, also compressed, or zip)");
    else
        r = add_entries(&unpack);
    (void)archive_read_free(unpack.archive);
    return r;
}
