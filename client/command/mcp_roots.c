#include "command/mcp_roots.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/failure.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/text.h"

enum {
    ATTEMPTS = 16 /* at a path with ".." whose folders are being moved */
};

/* --- which ones --------------------------------------------------------------------------------- */

static int add_root(struct roots *roots, const char *folder, struct failure *why)
{
    struct root root = {.folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (root.folder < 0)
        return fail(why, errno, "--root %s", folder);
    root.real = realpath(folder, NULL);
    root.name = *folder == '/' ? must_copy(folder) : must_format("%s/%s", roots->start, folder);
    for (size_t length = strlen(root.name); length > 1 && root.name[length - 1] == '/';)
        root.name[--length] = '\0';
    if (!root.real)
        root.real = must_copy(root.name);
    roots->list[roots->count++] = root;
    return 0;
}

/* What `path` is below `folder`: NULL if it is not, as far as the text tells. */
static const char *below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    if (strcmp(folder, "/") == 0)
        length = 0;
    if (strncmp(path, folder, length) != 0 || (path[length] && path[length] != '/'))
        return NULL;
    path += length;
    return path + strspn(path, "/");
}

/* A folder that has everything of somebody is not one that was meant. */
static bool holds_home(const char *folder)
{
    const struct passwd *user = getpwuid(getuid());
    const char *homes[] = {getenv("HOME"), user ? user->pw_dir : NULL};
    for (size_t i = 0; i < ARRAY_LENGTH(homes); i++) {
        _cleanup_free_ char *real = homes[i] ? realpath(homes[i], NULL) : NULL;
        if ((homes[i] && below(homes[i], folder)) || (real && below(real, folder)))
            return true;
    }
    return strcmp(folder, "/") == 0;
}

static void describe(struct roots *roots)
{
    size_t length = 0;
    for (size_t i = 0; i < roots->count && length < sizeof roots->why; i++)
        length += (size_t)snprintf(roots->why + length, sizeof roots->why - length, "%s%s",
                                   i ? ", " : "", roots->list[i].real);
    roots->why[utf8_prefix(roots->why, strlen(roots->why))] = '\0';
}

int roots_open(struct roots *roots, const char *const *folders, size_t count, struct failure *why)
{
    int r = 0;
    *roots = (struct roots){.start = realpath(".", NULL)};
    if (!roots->start)
        return fail(why, errno, "the working directory cannot be found");
    if (count > MAX_BRIDGE_ROOTS)
        return fail_plain(why, E2BIG, "--root can be given %d times", MAX_BRIDGE_ROOTS);
    for (size_t i = 0; i < count && r == 0; i++)
        r = add_root(roots, folders[i], why);
    if (count == 0 && holds_home(roots->start))
        (void)snprintf(roots->why, sizeof roots->why,
                       "Local files cannot be used: `husk mcp` was started in %.80s, which is too "
                       "much to open to a model. The user can name a folder with --root.",
                       roots->start);
    else if (count == 0)
        r = add_root(roots, roots->start, why);
    if (roots->count > 0)
        describe(roots);
    return r;
}

void roots_close(struct roots *roots)
{
    for (size_t i = 0; i < roots->count; i++) {
        close_fd(roots->list[i].folder);
        free(roots->list[i].name);
        free(roots->list[i].real);
    }
    free(roots->start);
    *roots = (struct roots){0};
}

/* --- finding ------------------------------------------------------------------------------------ */

/* A path below a root. */
struct spot {
    const struct root *root;
    char path[PATH_MAX];
};

static int refuse(const struct roots *roots, const char *path, struct failure *why)
{
    if (roots->count == 0)
        return fail_plain(why, EACCES, "%s", roots->why);
    return fail_plain(why, EACCES,
                      "'%.60s' is not in a folder that the user has opened (`husk mcp --root DIR` "
                      "opens more), or is a link that leads out of it. Open: %.90s",
                      path, roots->why);
}

static int find_spot(const struct roots *roots, const char *path, struct spot *spot,
                     struct failure *why)
{
    char whole[PATH_MAX];
    size_t longest = 0;
    spot->root = NULL;
    if (!*path)
        return fail_plain(why, EINVAL, "local_path is empty.");
    if (format_text(whole, sizeof whole, "%s%s%s", *path == '/' ? "" : roots->start,
                    *path == '/' ? "" : "/", path) < 0)
        return fail_plain(why, ENAMETOOLONG, "local_path is too long.");
    for (size_t i = 0; i < roots->count; i++) {
        const struct root *root = &roots->list[i];
        const char *names[] = {root->name, root->real};
        for (size_t j = 0; j < ARRAY_LENGTH(names); j++) {
            const char *rest = below(whole, names[j]);
            if (!rest || (spot->root && strlen(names[j]) <= longest))
                continue;
            spot->root = root;
            longest = strlen(names[j]);
            (void)format_text(spot->path, sizeof spot->path, "%s", *rest ? rest : ".");
        }
    }
    return spot->root ? 0 : refuse(roots, path, why);
}

/* With "/" as the root absolute links are as good as others. */
static int open_at(const struct root *root, const char *path, int flags)
{
    bool all = strcmp(root->real, "/") == 0;
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                           .resolve =
                               RESOLVE_NO_MAGICLINKS | (all ? RESOLVE_IN_ROOT : RESOLVE_BENEATH)};
    int fd;
    unsigned attempts = 0;
    do {
        fd = (int)syscall(SYS_openat2, root->folder, path, &how, sizeof how);
    } while (fd < 0 && errno == EAGAIN && ++attempts < ATTEMPTS);
    return fd < 0 ? -errno : fd;
}

static int explain(const struct roots *roots, const char *path, int error, struct failure *why)
{
    if (error == -EXDEV || error == -ELOOP)
        return refuse(roots, path, why);
    return fail(why, error, "'%.150s' of the user's machine", path);
}

/* First a descriptor that opens nothing, then, if it is what it should be, that very file: a pipe's writer does not wake up. */
int roots_open_path(const struct roots *roots, const char *path, struct failure *why)
{
    struct spot spot;
    struct stat status;
    char name[sizeof "/proc/self/fd/" + 12];
    int r = find_spot(roots, path, &spot, why);
    if (r < 0)
        return r;
    _cleanup_close_ int found = open_at(spot.root, spot.path, O_PATH);
    if (found < 0)
        return explain(roots, path, found, why);
    if (fstat(found, &status) < 0)
        return explain(roots, path, -errno, why);
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        return fail_plain(why, EINVAL, "'%.150s' is neither a file nor a folder.", path);
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", found);
    int fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? explain(roots, path, -errno, why) : fd;
}

int roots_check(const struct roots *roots, const char *path, struct failure *why)
{
    struct spot spot;
    int r = find_spot(roots, path, &spot, why);
    if (r < 0)
        return r;
    _cleanup_close_ int found = open_at(spot.root, spot.path, O_PATH);
    return found < 0 && found != -ENOENT ? explain(roots, path, found, why) : 0;
}

/* --- making ------------------------------------------------------------------------------------- */

/* The folder `path`, each part of it made if it is missing. */
static int make_folders(const struct root *root, char *path)
{
    int folder = open_at(root, ".", O_PATH | O_DIRECTORY);
    for (char *part = path; folder >= 0 && *part;) {
        size_t length = strcspn(part, "/");
        char kept = part[length];
        part[length] = '\0';
        _cleanup_close_ int parent = folder;
        folder = open_at(root, path, O_PATH | O_DIRECTORY);
        if (folder == -ENOENT && (mkdirat(parent, part, 0777) == 0 || errno == EEXIST))
            folder = open_at(root, path, O_PATH | O_DIRECTORY);
        part[length] = kept;
        part += length + (kept ? strspn(part + length, "/") : 0);
    }
    return folder;
}

static int take_name(const char *text, const char *path, char name[MAX_FILE_NAME_BYTES + 1],
                     struct failure *why)
{
    if (!*text || strcmp(text, ".") == 0 || strcmp(text, "..") == 0 ||
        format_text(name, MAX_FILE_NAME_BYTES + 1, "%s", text) < 0)
        return fail_plain(why, EINVAL, "'%.150s' does not name a file.", path);
    return 0;
}

int roots_open_parent(const struct roots *roots, const char *path, const char *fallback,
                      char name[MAX_FILE_NAME_BYTES + 1], struct failure *why)
{
    struct spot spot;
    int r = find_spot(roots, path, &spot, why);
    if (r < 0)
        return r;
    _cleanup_close_ int folder = open_at(spot.root, spot.path, O_PATH | O_DIRECTORY);
    char *slash = strrchr(spot.path, '/');
    if (folder >= 0 || (slash && !slash[1])) {
        r = take_name(fallback, path, name, why);
    } else {
        r = take_name(slash ? slash + 1 : spot.path, path, name, why);
        if (slash)
            *slash = '\0';
    }
    if (r < 0)
        return r;
    if (folder >= 0)
        return TAKE_DESCRIPTOR(folder);
    int made = make_folders(spot.root, slash ? spot.path : (char[]){"."});
    return made < 0 ? explain(roots, path, made, why) : made;
}
