#include "command/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attributes.h"
#include "command/link_path.h"
#include "husk/limits.h"

enum {
    UNPACK_BLOCK_BYTES = 64 * KIB
};

struct unpack {
    struct archive *from, *to;
    size_t strip;
    uint64_t size; /* of the archive: what is in it cannot be more */
    uint64_t entries;
    struct unpack_counts *counts;
    struct failure *why;
};

/* The name without its first components; "" if nothing is left. */
static const char *stripped(const char *name, size_t strip)
{
    for (; strip > 0; strip--) {
        name += strcspn(name, "/");
        name += strspn(name, "/");
    }
    return name;
}

static int bad(const struct unpack *unpack, struct archive *archive, const char *name)
{
    const char *text = archive_error_string(archive);
    int code = archive_errno(archive);
    return fail_plain(unpack->why, code > 0 ? code : EIO, "'%.100s' cannot be unpacked: %.100s",
                      name, text ? text : "the archive is damaged");
}

static int copy_content(struct unpack *unpack, const char *name)
{
    const void *block;
    size_t length;
    la_int64_t offset;
    for (;;) {
        int r = archive_read_data_block(unpack->from, &block, &length, &offset);
        if (r == ARCHIVE_EOF)
            return 0;
        if (r < ARCHIVE_WARN)
            return bad(unpack, unpack->from, name);
        if (archive_write_data_block(unpack->to, block, length, offset) < ARCHIVE_WARN)
            return bad(unpack, unpack->to, name);
        unpack->counts->bytes += length;
    }
}

/* May it be made, and as what? What a stranger may not choose (owner, special bits, who may not read it) is ours. */
static bool is_wanted(struct archive_entry *entry, const char *name)
{
    mode_t kind = archive_entry_filetype(entry);
    if (archive_entry_hardlink(entry))
        return false;
    if (kind == S_IFLNK) {
        const char *target = archive_entry_symlink(entry);
        return target && link_stays(name, target);
    }
    archive_entry_set_perm(entry,
                           (archive_entry_perm(entry) & 0777) | (kind == S_IFDIR ? 0700 : 0600));
    return kind == S_IFREG || kind == S_IFDIR;
}

static int take_entry(struct unpack *unpack, struct archive_entry *entry)
{
    const char *whole = archive_entry_pathname(entry);
    if (++unpack->entries > MAX_UNPACKED_ENTRIES)
        return fail_plain(unpack->why, E2BIG, "The folder has more than %d files.",
                          MAX_UNPACKED_ENTRIES);
    if (!whole || (!path_is_below(whole) && strcmp(whole, "./") != 0 && strcmp(whole, ".") != 0))
        return fail_plain(unpack->why, EBADMSG,
                          "The sandbox sent a name that leads out of the folder: '%.100s'.",
                          whole ? whole : "");
    _cleanup_free_ char *name = strdup(stripped(whole, unpack->strip));
    if (!name)
        return fail(unpack->why, ENOMEM, "unpack");
    if (!path_is_below(name))
        return 0; /* the folder itself, which is there */
    if (!is_wanted(entry, name)) {
        unpack->counts->left_out++;
        return 0;
    }
    bool file = archive_entry_filetype(entry) == S_IFREG;
    if (file && (uint64_t)archive_entry_size(entry) > unpack->size)
        return fail_plain(unpack->why, EBADMSG,
                          "The sandbox sent a file that is larger than its archive: '%.100s'.",
                          name);
    archive_entry_copy_pathname(entry, name);
    if (archive_write_header(unpack->to, entry) < ARCHIVE_WARN)
        return bad(unpack, unpack->to, name);
    int r = file ? copy_content(unpack, name) : 0;
    if (r == 0 && archive_write_finish_entry(unpack->to) < ARCHIVE_WARN)
        return bad(unpack, unpack->to, name);
    unpack->counts->files += file;
    return r;
}

static int take_all(struct unpack *unpack)
{
    struct archive_entry *entry;
    for (;;) {
        int r = archive_read_next_header(unpack->from, &entry);
        if (r == ARCHIVE_EOF)
            return 0;
        if (r < ARCHIVE_WARN)
            return bad(unpack, unpack->from, "The folder");
        r = take_entry(unpack, entry);
        if (r < 0)
            return r;
    }
}

static int unpack_here(struct unpack *unpack, int archive)
{
    int flags = ARCHIVE_EXTRACT_TIME | ARCHIVE_EXTRACT_SECURE_SYMLINKS |
                ARCHIVE_EXTRACT_SECURE_NODOTDOT | ARCHIVE_EXTRACT_SECURE_NOABSOLUTEPATHS;
    if (!unpack->from || !unpack->to)
        return fail(unpack->why, ENOMEM, "unpack");
    (void)archive_read_support_format_tar(unpack->from);
    (void)archive_write_disk_set_options(unpack->to, flags);
    if (archive_read_open_fd(unpack->from, archive, UNPACK_BLOCK_BYTES) < ARCHIVE_WARN)
        return bad(unpack, unpack->from, "The folder");
    int r = take_all(unpack);
    if (archive_write_close(unpack->to) < ARCHIVE_WARN && r == 0)
        return bad(unpack, unpack->to, "The folder");
    return r;
}

int unpack_tar(int archive, int folder, size_t strip, struct unpack_counts *counts,
               struct failure *why)
{
    struct stat status;
    _cleanup_close_ int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fstat(archive, &status) < 0 || lseek(archive, 0, SEEK_SET) < 0 || fchdir(folder) < 0)
        return fail(why, errno, "The folder cannot be unpacked");
    struct unpack unpack = {.from = archive_read_new(),
                            .to = archive_write_disk_new(),
                            .strip = strip,
                            .size = (uint64_t)status.st_size,
                            .counts = counts,
                            .why = why};
    int r = unpack_here(&unpack, archive);
    (void)archive_read_free(unpack.from);
    (void)archive_write_free(unpack.to);
    if (before >= 0 && fchdir(before) < 0 && r == 0)
        r = fail(why, errno, "The working directory is gone");
    return r;
}
