#include "porter/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/text.h"
#include "husk/limits.h"

struct place {
    struct tree_walk *walk;
    char path[PATH_MAX];
    bool over;
};

static void close_folder(DIR **folder)
{
    if (*folder)
        closedir(*folder);
}

static DIR *open_folder(int parent, const char *name)
{
    _cleanup_close_ int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (folder)
        (void)TAKE_DESCRIPTOR(fd);
    return folder;
}

static bool is_internal(const struct place *place, unsigned depth, const char *name)
{
    return place->walk->skip_internals && depth == 0 && !strcmp(name, ".husk");
}

static int walk_folder(struct place *place, int parent, const char *name, size_t end,
                       unsigned depth);

static void look_at(struct place *place, int folder, const char *name, size_t end, unsigned depth)
{
    struct tree_walk *walk = place->walk;
    struct tree_entry entry = {.folder = folder, .name = name, .path = place->path};
    size_t length = strlen(name);
    if (end + length + 2 > sizeof place->path) {
        walk->too_deep = true;
        return;
    }
    memcpy(place->path + end, name, length + 1);
    if (fstatat(folder, name, &entry.status, AT_SYMLINK_NOFOLLOW) < 0)
        return; /* it has just been removed */
    if (!walk->visit(&entry, walk->user)) {
        place->over = true;
        return;
    }
    if (!S_ISDIR(entry.status.st_mode) || walk->one_level)
        return;
    place->path[end + length] = '/';
    place->path[end + length + 1] = '\0';
    if (depth + 1 >= MAX_PORTER_DEPTH) {
        walk->too_deep = true;
        return;
    }
    int r = walk_folder(place, folder, name, end + length + 1, depth + 1);
    /* It may have become something else meanwhile, or nothing. */
    if (r < 0 && r != -ENOENT && r != -ENOTDIR && r != -ELOOP)
        walk->incomplete = true;
}

static int walk_folder(struct place *place, int parent, const char *name, size_t end,
                       unsigned depth)
{
    _cleanup_(close_folder) DIR *folder = open_folder(parent, name);
    if (!folder)
        return -errno;
    for (const struct dirent *entry; !place->over && (entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            !is_internal(place, depth, entry->d_name))
            look_at(place, dirfd(folder), entry->d_name, end, depth);
    }
    return 0;
}

int tree_walk(struct tree_walk *walk, int folder)
{
    struct place place = {.walk = walk};
    if (format_text(place.path, sizeof place.path, "%s", walk->prefix) < 0)
        return -ENAMETOOLONG;
    return walk_folder(&place, folder, ".", strlen(place.path), 0);
}
