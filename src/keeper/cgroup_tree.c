#include "keeper/cgroup_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buffer.h"
#include "base/fdio.h"
#include "base/text.h"

enum {
    REMOVE_TRIES = 200,
    REMOVE_PAUSE_MS = 10,
    LARGEST_PROCS_FILE = 64 * 1024,
    LARGEST_MOUNT_LINE = 8 * 1024 /* what is longer is cut, and is no cgroup */
};

static const char *const controller_names[CONTROLLER_COUNT] = {"memory", "cpu", "pids", "cpuacct"};
static const char service_name[] = "service";
static const char starter_name[] = "husk-starter";
static const char enable_all[] = "+memory +cpu +pids";

/* Is `word` one of the comma- or space-separated words of `list`? */
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += length) {
        bool begins = at == list || strchr(", \n", at[-1]);
        bool ends = at[length] == '\0' || strchr(", \n", at[length]);
        if (begins && ends)
            return true;
    }
    return false;
}

/* "/run/husk" → "husk-run-husk"; a '-' becomes "--", so that two services never share a tree. */
static int tree_name(const char *state_dir, char *name, size_t size)
{
    _cleanup_buffer_ struct buffer text = BUFFER_LIMITED(size - 1);
    int r = buffer_append_text(&text, "husk");
    if (r >= 0 && state_dir[0] != '/')
        r = buffer_append_text(&text, "-");
    for (const char *p = state_dir; r >= 0 && *p; p++)
        r = buffer_append_text(&text, *p == '/' ? "-" : *p == '-' ? "--" : (char[]){*p, '\0'});
    if (r < 0)
        return -ENAMETOOLONG;
    return format_text(name, size, "%s", buffer_text(&text));
}

static int add_hierarchy(struct cgroup_tree *tree, const char *mount_point, const char *below,
                         const char *name, bool unified)
{
    struct cgroup_hierarchy *hierarchy = &tree->hierarchies[tree->count];
    hierarchy->unified = unified;
    int r = format_text(hierarchy->parent, sizeof hierarchy->parent, "%s%s", mount_point, below);
    if (r < 0)
        return r;
    r = format_text(hierarchy->path, sizeof hierarchy->path, "%s/%s", hierarchy->parent, name);
    return r < 0 ? r : tree->count++;
}

int cgroup_own_path(char *path, size_t size, struct failure *why)
{
    char text[LARGEST_PROCS_FILE];
    ssize_t length = read_file_at(AT_FDCWD, "/proc/self/cgroup", text, sizeof text);
    if (length < 0)
        return fail(why, (int)length, "read /proc/self/cgroup");
    char *line = starts_with(text, "0::/") ? text : strstr(text, "\n0::/");
    if (!line)
        return fail_plain(why, ENOENT,
                          "this machine has no cgroup v2, so a user cannot set limits: start huskd "
                          "as root, or with --no-limits");
    line = strchr(line, '/');
    line[strcspn(line, "\n")] = '\0';
    int r = format_text(path, size, "%s", strcmp(line, "/") == 0 ? "" : line);
    return r < 0 ? fail(why, r, "cgroup %s", line) : 0;
}

/* What one line of /proc/self/mounts offers: the controllers of a v1 hierarchy. */
static int take_v1_mount(struct cgroup_tree *tree, const char *mount_point, const char *options,
                         const char *name)
{
    int index = -1;
    for (int c = 0; c < CONTROLLER_COUNT; c++) {
        if (tree->of[c] >= 0 || !has_word(options, controller_names[c]))
            continue;
        if (index < 0)
            index = add_hierarchy(tree, mount_point, "", name, false);
        if (index < 0)
            return index;
        tree->of[c] = index;
    }
    return 0;
}

/* Controllers that no v1 hierarchy has are with v2, if at all. */
static int take_v2_mount(struct cgroup_tree *tree, const char *mount_point, const char *below,
                         const char *name)
{
    char file[PATH_MAX], controllers[512];
    int r = format_text(file, sizeof file, "%s%s/cgroup.controllers", mount_point, below);
    if (r < 0 || read_file_at(AT_FDCWD, file, controllers, sizeof controllers) < 0)
        return 0;
    int index = -1;
    for (int c = 0; c < CONTROLLER_CPUACCT; c++) {
        if (tree->of[c] >= 0 || !has_word(controllers, controller_names[c]))
            continue;
        if (index < 0)
            index = add_hierarchy(tree, mount_point, below, name, true);
        if (index < 0)
            return index;
        tree->of[c] = index;
    }
    return 0;
}

/* v1 mounts first: on hybrid machines the controllers are theirs. A user's own subtree exists in v2
 * only. */
static int take_mounts(struct cgroup_tree *tree, const char *name, const char *below)
{
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    if (!mounts)
        return -errno;
    char v2_mount[PATH_MAX / 4] = "";
    char line[LARGEST_MOUNT_LINE];
    struct mntent entry;
    int r = 0;
    while (r >= 0 && getmntent_r(mounts, &entry, line, sizeof line)) {
        if (strcmp(entry.mnt_type, "cgroup2") == 0 && !v2_mount[0])
            r = format_text(v2_mount, sizeof v2_mount, "%s", entry.mnt_dir);
        else if (strcmp(entry.mnt_type, "cgroup") == 0 && !below)
            r = take_v1_mount(tree, entry.mnt_dir, entry.mnt_opts, name);
    }
    (void)endmntent(mounts);
    if (r >= 0 && v2_mount[0])
        r = take_v2_mount(tree, v2_mount, below ? below : "", name);
    return r;
}

int cgroup_tree_find(const char *state_dir, const char *below, struct cgroup_tree *ret,
                     struct failure *why)
{
    struct cgroup_tree tree = {.of = {-1, -1, -1, -1}};
    char name[NAME_MAX];
    int r = tree_name(state_dir, name, sizeof name);
    if (r >= 0)
        r = take_mounts(&tree, name, below);
    if (r < 0)
        return fail(why, r, "look for the cgroup hierarchies");
    for (int c = 0; c < CONTROLLER_CPUACCT; c++) {
        if (tree.of[c] >= 0)
            continue;
        return fail_plain(why, ENOENT, "the cgroup controller '%s' is not available%s",
                          controller_names[c],
                          below ? " to this user: start huskd with `systemd-run --user "
                                  "--scope -p Delegate=yes`, as "
                                  "root, or without limits (--no-limits)"
                                : ": enable it in the kernel, or start with --no-limits");
    }
    *ret = tree;
    return 0;
}

/* --- making
 * --------------------------------------------------------------------------------------- */

static int write_in(const char *directory, const char *file, const char *text)
{
    char path[PATH_MAX + NAME_MAX];
    int r = format_text(path, sizeof path, "%s/%s", directory, file);
    return r < 0 ? r : write_file_at(AT_FDCWD, path, text);
}

/* v2 allows controllers below a cgroup only while no process is in it: move those that are into a
 * leaf. */
static int empty_own_cgroup(const char *parent, struct failure *why)
{
    char leaf[PATH_MAX], path[PATH_MAX + NAME_MAX], pids[LARGEST_PROCS_FILE];
    if (format_text(leaf, sizeof leaf, "%s/%s", parent, starter_name) < 0 ||
        format_text(path, sizeof path, "%s/cgroup.procs", parent) < 0)
        return fail(why, ENAMETOOLONG, "cgroup %s", parent);
    if (mkdir(leaf, 0755) < 0 && errno != EEXIST)
        return fail_plain(
            why, errno,
            "the cgroup %s is not delegated to this user: start huskd with "
            "`systemd-run --user --scope -p Delegate=yes`, as root, or with --no-limits",
            parent);
    ssize_t length = read_file_at(AT_FDCWD, path, pids, sizeof pids);
    if (length < 0)
        return fail(why, (int)length, "read %s", path);
    char *rest = NULL;
    for (char *pid = strtok_r(pids, "\n", &rest); pid; pid = strtok_r(NULL, "\n", &rest)) {
        int r = write_in(leaf, "cgroup.procs", pid);
        if (r < 0 && r != -ESRCH)
            return fail(why, r, "move process %s to %s", pid, leaf);
    }
    return 0;
}

static int remove_directory_tree(int parent, const char *name);

static int remove_children(int directory)
{
    DIR *entries = fdopendir(directory);
    if (!entries) {
        close(directory);
        return -errno;
    }
    int r = 0;
    for (struct dirent *entry; r >= 0 && (entry = readdir(entries));) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            r = remove_directory_tree(dirfd(entries), entry->d_name);
    }
    closedir(entries);
    return r;
}

static int remove_directory_tree(int parent, const char *name)
{
    int directory = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (directory < 0)
        return errno == ENOENT ? 0 : -errno;
    int r = remove_children(directory);
    for (int tries = 0; r >= 0 && unlinkat(parent, name, AT_REMOVEDIR) < 0; tries++) {
        if (errno == ENOENT)
            return 0;
        if (errno != EBUSY || tries == REMOVE_TRIES)
            return -errno;
        (void)nanosleep(&(struct timespec){.tv_nsec = REMOVE_PAUSE_MS * 1000000L}, NULL);
    }
    return r;
}

static int hand_over(const char *path, uid_t owner, struct failure *why)
{
    static const char *const files[] = {".", "cgroup.procs", "cgroup.threads",
                                        "cgroup.subtree_control", "tasks"};
    _cleanup_close_ int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return fail(why, errno, "open %s", path);
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++) {
        if (fchownat(directory, files[i], owner, owner, 0) < 0 && errno != ENOENT)
            return fail(why, errno, "give %s/%s to uid %u", path, files[i], owner);
    }
    return 0;
}

static int make_hierarchy(const struct cgroup_hierarchy *hierarchy, uid_t owner, bool own_subtree,
                          struct failure *why)
{
    const char *path = hierarchy->path;
    int r = remove_directory_tree(AT_FDCWD, path);
    if (r < 0)
        return fail(why, r, "remove the old cgroup %s", path);
    if (hierarchy->unified) {
        r = own_subtree ? empty_own_cgroup(hierarchy->parent, why) : 0;
        if (r < 0)
            return r;
        r = write_in(hierarchy->parent, "cgroup.subtree_control", enable_all);
        if (r < 0)
            return fail(why, r, "enable controllers in %s", hierarchy->parent);
    }
    if (mkdir(path, 0755) < 0)
        return fail(why, errno, "make the cgroup %s", path);
    if (hierarchy->unified) {
        r = write_in(path, "cgroup.subtree_control", enable_all);
        if (r < 0)
            return fail(why, r, "enable controllers in %s", path);
    }
    char service[PATH_MAX + NAME_MAX];
    (void)snprintf(service, sizeof service, "%s/%s", path, service_name);
    if (mkdir(service, 0755) < 0)
        return fail(why, errno, "make the cgroup %s", service);
    r = hand_over(path, owner, why);
    return r < 0 ? r : hand_over(service, owner, why);
}

int cgroup_tree_make(const struct cgroup_tree *tree, uid_t owner, struct failure *why)
{
    for (int i = 0; i < tree->count; i++) {
        int r = make_hierarchy(&tree->hierarchies[i], owner, owner == geteuid(), why);
        if (r < 0)
            return r;
    }
    return 0;
}

int cgroup_tree_enter(const struct cgroup_tree *tree, pid_t pid, struct failure *why)
{
    char text[24], file[NAME_MAX];
    (void)snprintf(text, sizeof text, "%d", pid);
    (void)snprintf(file, sizeof file, "%s/cgroup.procs", service_name);
    for (int i = 0; i < tree->count; i++) {
        int r = write_in(tree->hierarchies[i].path, file, text);
        if (r < 0)
            return fail(why, r, "move process %d to %s/%s", pid, tree->hierarchies[i].path,
                        service_name);
    }
    return 0;
}

int cgroup_tree_remove(const struct cgroup_tree *tree, struct failure *why)
{
    int result = 0;
    for (int i = 0; i < tree->count; i++) {
        int r = remove_directory_tree(AT_FDCWD, tree->hierarchies[i].path);
        if (r < 0)
            result = fail(why, r, "remove the cgroup %s", tree->hierarchies[i].path);
    }
    return result;
}
