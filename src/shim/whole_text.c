#include "shim/whole_text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/fdio.h"
#include "base/text.h"

#define FOLDER ".husk"

enum {
    SHARE_OF_FREE_SPACE = 4 /* at most a quarter of it */
};

void whole_text_init(struct whole_text *whole, int home_fd, const char *name)
{
    *whole = (struct whole_text){.home_fd = home_fd, .folder = -1, .file = -1};
    whole->given_up = format_text(whole->path, sizeof whole->path, FOLDER "/%s", name) < 0;
}

static const char *name_of(const struct whole_text *whole)
{
    return whole->path + strlen(FOLDER "/");
}

static void close_both(struct whole_text *whole)
{
    whole->file = close_fd(whole->file);
    whole->folder = close_fd(whole->folder);
}

static void give_up(struct whole_text *whole)
{
    whole->given_up = true;
    if (whole->file >= 0)
        (void)unlinkat(whole->folder, name_of(whole), 0);
    close_both(whole);
}

static int open_file(struct whole_text *whole)
{
    struct statfs disk;
    (void)mkdirat(whole->home_fd, FOLDER, 0700);
    whole->folder = openat(whole->home_fd, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (whole->folder < 0 || fstatfs(whole->folder, &disk) < 0)
        return -errno;
    uint64_t free_bytes = (uint64_t)disk.f_bavail * (uint64_t)disk.f_bsize;
    whole->limit = free_bytes / SHARE_OF_FREE_SPACE;
    if (whole->limit > MAX_WHOLE_TEXT_BYTES)
        whole->limit = MAX_WHOLE_TEXT_BYTES;
    whole->file = openat(whole->folder, name_of(whole),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return whole->file < 0 ? -errno : 0;
}

static int append(struct whole_text *whole, const char *text, size_t length)
{
    whole->size += length;
    return whole->size > whole->limit ? -EFBIG : write_all(whole->file, text, length);
}

void whole_text_add(struct whole_text *whole, const struct transcript *so_far, const char *text,
                    size_t length)
{
    if (whole->given_up || (whole->file < 0 && length <= transcript_room(so_far)))
        return;
    int r = 0;
    if (whole->file < 0) {
        _cleanup_buffer_ struct buffer before = {0};
        r = transcript_render(so_far, NULL, &before);
        if (r == 0)
            r = open_file(whole);
        if (r == 0)
            r = append(whole, before.data, before.length);
    }
    if (r == 0)
        r = append(whole, text, length);
    if (r < 0)
        give_up(whole);
}

const char *whole_text_end(struct whole_text *whole)
{
    bool kept = whole->file >= 0;
    close_both(whole);
    whole->given_up = true;
    return kept ? whole->path : NULL;
}
