#include "porter/merge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/attributes.h"
#include "porter/path_walk.h"

static void close_entries(DIR **entries)
{
    if (*entries)
        closedir(*entries);
}

static int open_below(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int merge_folder(int from, int to, bool move, struct failure *why);

/* Two folders become one; anything else that is not a folder is replaced. What is not there yet moves as a whole. */
static int merge_entry(int from, int to, const char *name, bool move, struct failure *why)
{
    struct stat new, old;
    if (fstatat(from, name, &new, AT_SYMLINK_NOFOLLOW) < 0)
        return fail(why, errno, "'%.150s' cannot be put in its place", name);
    bool there = fstatat(to, name, &old, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && S_ISDIR(new.st_mode) && S_ISDIR(old.st_mode)) {
        _cleanup_close_ int below_from = open_below(from, name), below_to = open_below(to, name);
        if (below_from < 0 || below_to < 0)
            return fail(why, below_to < 0 ? below_to : below_from,
                        "The folder '%.150s' cannot be opened", name);
        return merge_folder(below_from, below_to, move, why);
    }
    if (there && S_ISDIR(new.st_mode) != S_ISDIR(old.st_mode))
        return fail_plain(why, EEXIST, "'%.150s' is a %s in the archive and a %s in the sandbox.",
                          name, S_ISDIR(new.st_mode) ? "folder" : "file",
                          S_ISDIR(old.st_mode)   ? "folder"
                          : S_ISLNK(old.st_mode) ? "link"
                                                 : "file");
    if (move && renameat(from, name, to, name) < 0)
        return fail(why, errno, "'%.150s' cannot be put in its place", name);
    return 0;
}

static int merge_folder(int from, int to, bool move, struct failure *why)
{
    int r = 0;
    _cleanup_close_ int fd = open_below(from, ".");
    _cleanup_(close_entries) DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    if (!entries)
        return fail(why, errno, "The unpacked files cannot be read");
    (void)TAKE_DESCRIPTOR(fd);
    for (const struct dirent *entry; r == 0 && (entry = readdir(entries));) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            r = merge_entry(from, to, entry->d_name, move, why);
    }
    return r;
}

int merge_into(int from, int home, const char *path, struct failure *why)
{
    _cleanup_close_ int there = path_open(home, path, false);
    int r = there < 0 ? there : merge_folder(from, there, false, why);
    if (there < 0 && r != -ENOENT) {
        bool in_the_way = r == -ENOTDIR;
        return fail_plain(why, in_the_way ? EEXIST : -r,
                          in_the_way ? "'%.150s' is not a folder, or leads through a link."
                                     : "The folder '%.150s' cannot be opened.",
                          path);
    }
    if (there >= 0 && r < 0)
        return r;
    _cleanup_close_ int to = path_open(home, path, true);
    if (to < 0)
        return fail(why, to, "The folder '%.150s' cannot be made", path);
    return merge_folder(from, to, true, why);
}
