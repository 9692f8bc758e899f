#include "command/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "husk/limits.h"

struct level {
    int folder;
    char **names;
    size_t count, next;
    size_t path_length; /* of the folder */
};

struct walk {
    int top;
    bool begun;
    bool enter;                                /* the entry that came last is a folder to go into */
    struct level levels[MAX_PORTER_DEPTH + 1]; /* as deep as the service takes */
    size_t depth;                              /* levels that there are */
    struct buffer path;                        /* of the entry that came last */
};

struct walk *walk_new(int folder)
{
    struct walk *walk = must_alloc(sizeof *walk);
    walk->top = folder;
    return walk;
}

static void leave(struct walk *walk)
{
    struct level *level = &walk->levels[--walk->depth];
    for (size_t i = 0; i < level->count; i++)
        free(level->names[i]);
    free(level->names);
    close_fd(level->folder);
}

struct walk *walk_free(struct walk *walk)
{
    if (!walk)
        return NULL;
    while (walk->depth > 0)
        leave(walk);
    buffer_free(&walk->path);
    free(walk);
    return NULL;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void close_folder(DIR **folder)
{
    if (*folder)
        (void)closedir(*folder);
}

static int add_name(struct level *level, const char *name)
{
    if (level->count == MAX_UNPACKED_ENTRIES)
        return -E2BIG;
    /* Room doubles: it is full whenever the count is a power of two. */
    if ((level->count & (level->count - 1)) == 0) {
        size_t room = level->count ? 2 * level->count : 1;
        char **more = reallocarray(level->names, room, sizeof *more);
        if (!more)
            return -ENOMEM;
        level->names = more;
    }
    char *copy = strdup(name);
    if (!copy)
        return -ENOMEM;
    level->names[level->count++] = copy;
    return 0;
}

static int read_names(struct level *level)
{
    int copy = openat(level->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0)
        return -errno;
    _cleanup_(close_folder) DIR *folder = fdopendir(copy);
    if (!folder) {
        close_fd(copy);
        return -ENOMEM;
    }
    int r = 0;
    for (const struct dirent *entry; r == 0 && (errno = 0, entry = readdir(folder));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            r = add_name(level, entry->d_name);
    }
    if (r == 0 && errno)
        r = -errno;
    if (r == 0 && level->count > 1)
        qsort(level->names, level->count, sizeof *level->names, by_name);
    return r;
}

/* Into the folder that came last: `name` in `parent`. */
static int enter(struct walk *walk, int parent, const char *name)
{
    if (walk->depth == ARRAY_LENGTH(walk->levels))
        return -ELOOP;
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return -errno;
    struct level *level = &walk->levels[walk->depth++];
    *level = (struct level){.folder = folder, .path_length = walk->path.length};
    return read_names(level);
}

static int tell(const struct walk *walk, int folder, const char *name, struct walk_entry *ret)
{
    *ret = (struct walk_entry){
        .folder = folder, .name = name, .path = walk->path.length ? walk->path.data : ""};
    return fstatat(folder, name, &ret->status, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 1;
}

/* Goes below the folder of `level`. */
static int set_path(struct walk *walk, const struct level *level, const char *name)
{
    walk->path.length = level->path_length;
    if ((walk->path.length > 0 && buffer_append(&walk->path, "/", 1) < 0) ||
        buffer_append_text(&walk->path, name) < 0 || !buffer_text(&walk->path))
        return -ENOMEM;
    return 0;
}

static int begin(struct walk *walk, struct walk_entry *ret)
{
    walk->begun = walk->enter = true;
    return tell(walk, walk->top, ".", ret);
}

/* The folder that came last, if it is to be gone into. */
static int follow(struct walk *walk, struct walk_entry *ret)
{
    const struct level *level = walk->depth ? &walk->levels[walk->depth - 1] : NULL;
    if (!walk->enter)
        return 0;
    walk->enter = false;
    const char *name = level ? level->names[level->next - 1] : ".";
    *ret = (struct walk_entry){.path = walk->path.length ? walk->path.data : ""};
    return enter(walk, level ? level->folder : walk->top, name);
}

int walk_next(struct walk *walk, struct walk_entry *ret)
{
    if (!walk->begun)
        return begin(walk, ret);
    int r = follow(walk, ret);
    if (r < 0)
        return r;
    while (walk->depth > 0 &&
           walk->levels[walk->depth - 1].next == walk->levels[walk->depth - 1].count)
        leave(walk);
    if (walk->depth == 0)
        return 0;
    struct level *level = &walk->levels[walk->depth - 1];
    const char *name = level->names[level->next++];
    r = set_path(walk, level, name);
    if (r == 0)
        r = tell(walk, level->folder, name, ret);
    walk->enter = r > 0 && S_ISDIR(ret->status.st_mode);
    return r;
}

void walk_skip(struct walk *walk)
{
    walk->enter = false;
}
