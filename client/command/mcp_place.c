#include "command/mcp_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/fdio.h"
#include "command/mcp_roots.h"

static int refuse_existing(const struct place *place, struct failure *why)
{
    return fail_plain(
        why, EEXIST,
        "'%.150s' exists on the user's machine. Pass overwrite true to replace it, or "
        "another local_path.",
        place->name);
}

int place_open(struct place *place, const struct roots *roots, const char *path,
               const char *fallback, bool overwrite, struct failure *why)
{
    struct stat status;
    uint32_t number;
    *place = (struct place){.file = -1, .overwrite = overwrite};
    place->folder = roots_open_parent(roots, path, fallback, place->name, why);
    if (place->folder < 0)
        return place->folder;
    bool exists = fstatat(place->folder, place->name, &status, AT_SYMLINK_NOFOLLOW) == 0;
    if (exists && S_ISDIR(status.st_mode))
        return fail_plain(why, EISDIR, "'%.150s' is a folder.", place->name);
    if (exists && !overwrite)
        return refuse_existing(place, why);
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return fail(why, EIO, "no random numbers");
    char temporary[sizeof place->temporary];
    (void)snprintf(temporary, sizeof temporary, ".husk-%08x.part", number);
    place->file = openat(place->folder, temporary,
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (place->file < 0)
        return fail(why, errno, "'%.150s' cannot be written", path);
    (void)snprintf(place->temporary, sizeof place->temporary, "%s", temporary);
    return 0;
}

int place_write(const struct place *place, const char *data, size_t length)
{
    return write_all(place->file, data, length);
}

/* Not every file system can rename without replacing; all that matter can link. */
static int rename_new(const struct place *place)
{
    if (renameat2(place->folder, place->temporary, place->folder, place->name, RENAME_NOREPLACE) ==
        0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (linkat(place->folder, place->temporary, place->folder, place->name, 0) < 0)
        return -errno;
    (void)unlinkat(place->folder, place->temporary, 0);
    return 0;
}

int place_finish(struct place *place, struct failure *why)
{
    int r = 0;
    if (!place->overwrite)
        r = rename_new(place);
    else if (renameat(place->folder, place->temporary, place->folder, place->name) < 0)
        r = -errno;
    if (r == -EEXIST)
        return refuse_existing(place, why);
    if (r < 0)
        return fail(why, r, "'%.150s' cannot be written", place->name);
    place->temporary[0] = '\0';
    return 0;
}

void place_close(struct place *place)
{
    if (place->folder >= 0 && place->temporary[0])
        (void)unlinkat(place->folder, place->temporary, 0);
    place->temporary[0] = '\0';
    place->file = close_fd(place->file);
    place->folder = close_fd(place->folder);
}
