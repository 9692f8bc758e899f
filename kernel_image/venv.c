/* husk-venv: what is installed in the sandbox's virtual environment, and installing finished wheels into it. Runs inside the
 * container like any process of the sandbox: without a network, in its limits, under its id. Static, because nothing that the
 * sandbox can change may be needed to repair what it has changed.
 *
 *   husk-venv list                     a line "name version" for each distribution
 *   husk-venv install SHA256/FILE …    wheels of /opt/husk/wheels. Says "+ name version" for what is new, "- name version"
 *                                      for what it replaced, "! name" if that is imported in the kernel. 0: all of it is there
 *   husk-venv recover                  undo what an install that was killed has left
 *
 * All or nothing: uv unpacks into a folder of its own (broken wheels and full disks show there), then files change places by
 * rename(2), each step noted in a journal before it is taken. The removal of the journal is the moment from which the new
 * packages are there; whoever finds one puts everything back. Folders are not renamed: overlayfs cannot, if they are the image's. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "husk/package_protocol.h"
#include "venv_journal.h"
#include "venv_text.h"

static const char wheels_folder[] = "/opt/husk/wheels";
static const char modules_file[] = IMPORTED_MODULES_PATH;
static const char uv[] = "/opt/tools/uv";

enum {
    MAX_WHEELS = 512,
    NAME_SIZE = 256
};

static char site[PATH_MAX]; /* lib/python3.13/site-packages, below the environment */

static int complain(const char *what, const char *path)
{
    (void)fprintf(stderr, "%s %s: %s\n", what, path, strerror(errno));
    return -1;
}

/* --- what is installed ---------------------------------------------------------------------- */

static bool find_site(void)
{
    DIR *folder = opendir("lib");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (!strncmp(entry->d_name, "python3.", 8))
            (void)snprintf(site, sizeof site, "lib/%.200s/site-packages", entry->d_name);
    }
    if (folder)
        closedir(folder);
    return *site;
}

/* "Name" and "Version" of a METADATA file, or what the folder's name says. */
static void read_metadata(const char *parent, const char *folder, char name[NAME_SIZE],
                          char version[NAME_SIZE])
{
    char path[PATH_MAX], text[4096];
    const char *dash = strrchr(folder, '-');
    (void)snprintf(name, NAME_SIZE, "%.*s", (int)(dash ? dash - folder : 0), folder);
    (void)snprintf(version, NAME_SIZE, "%.*s", dash ? (int)strcspn(dash + 1, "\n") : 0,
                   dash ? dash + 1 : "");
    if (dash && strlen(version) > 10)
        version[strlen(version) - 10] = '\0'; /* ".dist-info" */
    (void)snprintf(path, sizeof path, "%s/%s/METADATA", parent, folder);
    FILE *file = fopen(path, "re");
    while (file && fgets(text, sizeof text, file) && *text != '\n' && *text != '\r') {
        text[strcspn(text, "\r\n")] = '\0';
        if (!strncasecmp(text, "Name: ", 6))
            (void)snprintf(name, NAME_SIZE, "%.200s", text + 6);
        else if (!strncasecmp(text, "Version: ", 9))
            (void)snprintf(version, NAME_SIZE, "%.200s", text + 9);
    }
    if (file)
        fclose(file);
}

static bool is_distribution(const char *name)
{
    size_t length = strlen(name);
    return length > 10 && !strcmp(name + length - 10, ".dist-info");
}

static int list(void)
{
    DIR *folder = opendir(site);
    if (!folder)
        return complain("open", site);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char name[NAME_SIZE], version[NAME_SIZE];
        if (!is_distribution(entry->d_name))
            continue;
        read_metadata(site, entry->d_name, name, version);
        (void)printf("%s %s\n", name, version);
    }
    closedir(folder);
    return 0;
}

/* --- taking away what is replaced ------------------------------------------------------------ */

/* One that has this name, however it is written. */
static bool find_distribution(const char *name, char *found, size_t size)
{
    DIR *folder = opendir(site);
    bool any = false;
    for (struct dirent *entry; folder && !any && (entry = readdir(folder));) {
        char other[NAME_SIZE], version[NAME_SIZE];
        if (!is_distribution(entry->d_name))
            continue;
        read_metadata(site, entry->d_name, other, version);
        any = same_package(name, other);
        if (any)
            (void)snprintf(found, size, "%s", entry->d_name);
    }
    if (folder)
        closedir(folder);
    return any;
}

/* Paths of files that were taken: some of their folders may be empty when the new files are there. */
static char **taken_paths;
static size_t taken_count;

static void remember(const char *path)
{
    char **longer = realloc(taken_paths, (taken_count + 1) * sizeof *longer);
    if (!longer)
        return; /* an empty folder may stay */
    taken_paths = longer;
    taken_paths[taken_count] = strdup(path);
    taken_count += taken_paths[taken_count] != NULL;
}

/* x/y.py has its bytecode in x/__pycache__/y.*.pyc, which no RECORD needs to mention. */
static int take_bytecode(const char *path)
{
    char folder[PATH_MAX], stem[NAME_MAX + 1], file[2 * PATH_MAX];
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t length = strlen(name);
    if (length < 4 || strcmp(name + length - 3, ".py") != 0 || length > NAME_MAX)
        return 0;
    (void)snprintf(stem, sizeof stem, "%.*s.", (int)length - 3, name);
    (void)snprintf(folder, sizeof folder, "%.*s/__pycache__", (int)(slash ? slash - path : 1),
                   slash ? path : ".");
    DIR *entries = opendir(folder);
    int r = 0;
    for (struct dirent *entry; entries && r == 0 && (entry = readdir(entries));) {
        if (strncmp(entry->d_name, stem, strlen(stem)) != 0)
            continue;
        (void)snprintf(file, sizeof file, "%s/%s", folder, entry->d_name);
        r = journal_take(file);
    }
    if (entries)
        closedir(entries);
    if (r == 0 && snprintf(file, sizeof file, "%s/x", folder) > 0)
        remember(file);
    return r;
}

static bool is_imported(const char *module)
{
    char line[NAME_SIZE];
    bool found = false;
    FILE *file = fopen(modules_file, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        found = !strcmp(line, module);
    }
    if (file)
        fclose(file);
    return found;
}

/* The module that a line of a RECORD belongs to: "numpy" of "numpy/core/x.py", "six" of "six.py". */
static bool imported_by_kernel(const char *entry)
{
    char module[NAME_SIZE];
    if (strstr(entry, ".dist-info/") || *entry == '.')
        return false;
    (void)snprintf(module, sizeof module, "%.*s", (int)strcspn(entry, "/."), entry);
    return is_imported(module);
}

/* Last of all: Linux before 6.6 cannot make a folder of the image again that was removed. */
static void drop_empty_folders(void)
{
    for (size_t i = 0; i < taken_count; i++) {
        for (char *slash; (slash = strrchr(taken_paths[i], '/'));) {
            *slash = '\0';
            if (!strcmp(taken_paths[i], site) || !journal_drop_empty(taken_paths[i]))
                break;
        }
    }
}

/* Every file that its RECORD names. It is read to its end first: it names itself, too. */
static int take_distribution(const char *folder, bool *imported)
{
    char record[2 * PATH_MAX], entry[PATH_MAX], path[PATH_MAX];
    (void)snprintf(record, sizeof record, "%s/%s/RECORD", site, folder);
    FILE *file = fopen(record, "re");
    if (!file)
        return complain("Cannot uninstall what is there: read", record);
    size_t first = taken_count;
    while (read_record_line(file, entry, sizeof entry)) {
        *imported = *imported || imported_by_kernel(entry);
        if (resolve_below(site, entry, path,
                          sizeof path)) /* else: not a place in this environment */
            remember(path);
    }
    fclose(file);
    int r = 0;
    for (size_t i = first, end = taken_count; r == 0 && i < end; i++) {
        struct stat status;
        if (lstat(taken_paths[i], &status) == 0 && !S_ISDIR(status.st_mode))
            r = journal_take(taken_paths[i]);
        if (r == 0)
            r = take_bytecode(taken_paths[i]);
    }
    return r;
}

/* --- putting the new in its place ------------------------------------------------------------- */

static int put_tree(const char *from, const char *to)
{
    DIR *folder = opendir(from);
    if (!folder)
        return complain("open", from);
    int r = 0;
    for (struct dirent *entry; r == 0 && (entry = readdir(folder));) {
        char source[PATH_MAX], target[PATH_MAX];
        struct stat status;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..") ||
            !strcmp(entry->d_name, ".lock"))
            continue;
        if (snprintf(source, sizeof source, "%s/%s", from, entry->d_name) >= PATH_MAX ||
            snprintf(target, sizeof target, "%s%s%s", to, *to ? "/" : "", entry->d_name) >=
                PATH_MAX) {
            errno = ENAMETOOLONG;
            r = complain("install", entry->d_name);
        } else if (lstat(source, &status) < 0) {
            r = complain("look at", source);
        } else if (S_ISDIR(status.st_mode)) {
            r = journal_make_folder(target);
            if (r == 0)
                r = put_tree(source, target);
        } else {
            r = journal_put(source, target);
        }
    }
    closedir(folder);
    return r;
}

/* Each new distribution says what it replaces. */
static int take_replaced(const char *staged)
{
    DIR *folder = opendir(staged);
    if (!folder)
        return complain("open", staged);
    int r = 0;
    for (struct dirent *entry; r == 0 && (entry = readdir(folder));) {
        char name[NAME_SIZE], version[NAME_SIZE], old[NAME_MAX + 1], same[NAME_SIZE];
        bool imported = false;
        if (!is_distribution(entry->d_name))
            continue;
        read_metadata(staged, entry->d_name, name, version);
        if (find_distribution(name, old, sizeof old)) {
            char before[NAME_SIZE];
            read_metadata(site, old, same, before);
            r = take_distribution(old, &imported);
            (void)printf("- %s %s\n", name, before);
        }
        (void)printf("+ %s %s\n", name, version);
        if (imported)
            (void)printf("! %s\n", name);
    }
    closedir(folder);
    return r;
}

static int unpack(const char **arguments)
{
    pid_t child = fork();
    if (child == 0) {
        (void)setenv("TMPDIR", WORK_FOLDER "/tmp", 1);
        (void)setenv("UV_CONCURRENT_INSTALLS", "2", 1);
        (void)setenv("RAYON_NUM_THREADS", "2", 1);
        (void)dup2(STDERR_FILENO, STDOUT_FILENO);
        execv(uv, (char *const *)(uintptr_t)arguments);
        _exit(127);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return complain("start", uv);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* "name==version" of a wheel's file name, and a link to it where uv looks for wheels. */
static int offer_wheel(const char *wheel, char *requirement, size_t size)
{
    char target[PATH_MAX], link[PATH_MAX];
    const char *file = strrchr(wheel, '/');
    const char *version = file ? strchr(file, '-') : NULL;
    const char *end = version ? strchr(version + 1, '-') : NULL;
    if (!end || strstr(wheel, "..")) {
        errno = EINVAL;
        return complain("not a wheel", wheel);
    }
    (void)snprintf(target, sizeof target, "%s/%s", wheels_folder, wheel);
    (void)snprintf(link, sizeof link, WORK_FOLDER "/links%s", file);
    (void)snprintf(requirement, size, "%.*s==%.*s", (int)(version - file - 1), file + 1,
                   (int)(end - version - 1), version + 1);
    if (access(target, R_OK) < 0)
        return complain("find the wheel", wheel);
    return symlink(target, link) < 0 ? complain("link", link) : 0;
}

static int stage(int count, char **wheels)
{
    static const char *arguments[MAX_WHEELS + 32] = {"uv",
                                                     "pip",
                                                     "install",
                                                     "--quiet",
                                                     "--offline",
                                                     "--no-config",
                                                     "--no-index",
                                                     "--no-deps",
                                                     "--color",
                                                     "never",
                                                     "--no-cache",
                                                     "--link-mode",
                                                     "hardlink",
                                                     "--python",
                                                     "/opt/venv/bin/python",
                                                     "--no-python-downloads",
                                                     "--find-links",
                                                     WORK_FOLDER "/links",
                                                     "--prefix",
                                                     WORK_FOLDER "/stage"};
    size_t used = 0;
    while (arguments[used])
        used++;
    static const char *const folders[] = {WORK_FOLDER "/links", WORK_FOLDER "/tmp",
                                          WORK_FOLDER "/undo"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        if (mkdir(folders[i], 0755) < 0)
            return complain("make", folders[i]);
    }
    for (int i = 0; i < count; i++) {
        char requirement[NAME_SIZE];
        if (offer_wheel(wheels[i], requirement, sizeof requirement) < 0)
            return -1;
        arguments[used++] = strdup(requirement);
    }
    return unpack(arguments);
}

static int exchange(void)
{
    char staged[2 * PATH_MAX];
    (void)snprintf(staged, sizeof staged, WORK_FOLDER "/stage/%s", site);
    if (journal_begin() < 0)
        return complain("write", WORK_FOLDER "/journal");
    int r = take_replaced(staged);
    if (r == 0)
        r = put_tree(WORK_FOLDER "/stage", "");
    if (r == 0)
        drop_empty_folders();
    if (r == 0)
        r = journal_commit();
    return r;
}

static int install(int count, char **wheels)
{
    if (count < 1 || count > MAX_WHEELS)
        return -1;
    if (mkdir(WORK_FOLDER, 0755) < 0)
        return complain("make", WORK_FOLDER);
    int r = stage(count, wheels);
    if (r == 0)
        r = exchange();
    if (r < 0)
        journal_undo();
    remove_tree(WORK_FOLDER);
    return r;
}

int main(int argc, char **argv)
{
    if (argc < 2 || chdir("/opt/venv") < 0 || !find_site()) {
        (void)fprintf(stderr, "usage: husk-venv list|install|recover\n");
        return 2;
    }
    (void)umask(022);
    int r = 0;
    if (!strcmp(argv[1], "list")) {
        r = list();
    } else { /* the shim sees to it that no other is at work */
        journal_undo();
        remove_tree(WORK_FOLDER);
        if (!strcmp(argv[1], "install"))
            r = install(argc - 2, argv + 2);
    }
    return r < 0 || fflush(stdout) < 0;
}
