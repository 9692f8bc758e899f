#include "fetcher/wheel_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "fetcher/lock_file.h"
#include "husk/fetch_protocol.h"

#define CACHE "/mnt"

enum {
    IN_USE_SECONDS = 15 * 60,
    MAX_CACHED_WHEELS = 65536
};

bool wheel_cache_has(const char *sha256, const char *file)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, CACHE "/" CACHE_WHEELS "/%s/%s", sha256, file);
    if (access(path, R_OK) < 0)
        return false;
    (void)snprintf(path, sizeof path, CACHE "/" CACHE_WHEELS "/%s", sha256);
    (void)utimensat(AT_FDCWD, path, NULL, 0);
    return true;
}

/* --- downloads ---------------------------------------------------------------------------------- */

/* A folder for all that this fetcher downloads, locked for its life: one that nobody has locked is of a fetcher that was killed. */
static char run_folder[PATH_MAX];
static int run_lock = -1;

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status, (void)type, (void)where;
    (void)remove(path);
    return 0;
}

static void remove_unlocked(void)
{
    DIR *entries = opendir(CACHE "/" CACHE_PARTS);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        char path[PATH_MAX];
        _cleanup_close_ int folder =
            *entry->d_name == '.'
                ? -1
                : openat(dirfd(entries), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (folder < 0 || flock(folder, LOCK_EX | LOCK_NB) < 0)
            continue;
        (void)snprintf(path, sizeof path, CACHE "/" CACHE_PARTS "/%s", entry->d_name);
        (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    }
    if (entries)
        closedir(entries);
}

int wheel_cache_begin(struct failure *why)
{
    uint64_t number;
    _cleanup_close_ int parts =
        open(CACHE "/" CACHE_PARTS, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    /* One after the other: a folder whose lock is not taken yet would look like a killed one's. */
    if (parts < 0 || flock(parts, LOCK_EX) < 0)
        return fail(why, errno, "use the package cache");
    remove_unlocked();
    randombytes_buf(&number, sizeof number);
    (void)snprintf(run_folder, sizeof run_folder, CACHE "/" CACHE_PARTS "/%016llx",
                   (unsigned long long)number);
    if (mkdir(run_folder, 0755) < 0)
        return fail(why, errno, "make a folder in the package cache");
    run_lock = open(run_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return run_lock < 0 || flock(run_lock, LOCK_EX | LOCK_NB) < 0
               ? fail(why, errno, "lock a folder in the package cache")
               : 0;
}

static void part_folder(unsigned number, char *path)
{
    (void)snprintf(path, PATH_MAX, "%.200s/%u", run_folder, number);
}

void wheel_cache_part(unsigned number, char *path)
{
    char folder[PATH_MAX];
    part_folder(number, folder);
    (void)mkdir(folder, 0755);
    (void)snprintf(path, PATH_MAX, "%.250s/wheel", folder);
}

static int hash_file(const char *path, char hex[SHA256_TEXT + 1], uint64_t *bytes,
                     struct failure *why)
{
    crypto_hash_sha256_state state;
    unsigned char digest[crypto_hash_sha256_BYTES];
    unsigned char *block = must_alloc(256 * KIB);
    _cleanup_free_ unsigned char *freed = block;
    _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return fail(why, errno, "read what was downloaded");
    (void)crypto_hash_sha256_init(&state);
    ssize_t length;
    for (*bytes = 0; (length = read_some(fd, block, 256 * KIB)) > 0; *bytes += (uint64_t)length)
        (void)crypto_hash_sha256_update(&state, block, (unsigned long long)length);
    if (length < 0)
        return fail(why, (int)length, "read what was downloaded");
    (void)crypto_hash_sha256_final(&state, digest);
    (void)sodium_bin2hex(hex, SHA256_TEXT + 1, digest, sizeof digest);
    return 0;
}

int wheel_cache_take(unsigned number, const char *file, char *sha256, uint64_t *bytes,
                     struct failure *why)
{
    char folder[PATH_MAX], part[PATH_MAX], named[2 * PATH_MAX], place[PATH_MAX],
        found[SHA256_TEXT + 1];
    wheel_cache_part(number, part);
    part_folder(number, folder);
    int r = hash_file(part, found, bytes, why);
    if (r < 0)
        return r;
    if (*sha256 && strcmp(sha256, found) != 0) {
        (void)unlink(part);
        (void)rmdir(folder);
        return fail_plain(why, EBADMSG,
                          "THESE PACKAGES DO NOT MATCH THE HASHES from the index: %s has sha256 "
                          "%.16s…, expected %.16s…",
                          file, found, sha256);
    }
    (void)snprintf(sha256, SHA256_TEXT + 1, "%s", found);
    (void)snprintf(named, sizeof named, "%s/%s", folder, file);
    (void)snprintf(place, sizeof place, CACHE "/" CACHE_WHEELS "/%s", found);
    if (chmod(part, 0444) < 0 || rename(part, named) < 0)
        return fail(why, errno, "keep %s", file);
    if (rename(folder, place) == 0)
        return 0;
    /* Somebody else was faster, perhaps under another name. */
    char again[2 * PATH_MAX];
    (void)snprintf(again, sizeof again, "%s/%s", place, file);
    bool there = access(again, R_OK) == 0 || rename(named, again) == 0;
    (void)unlink(named);
    (void)rmdir(folder);
    return there ? 0 : fail(why, errno, "keep %s", file);
}

/* --- keeping it small ------------------------------------------------------------------------- */

struct cached {
    char name[SHA256_TEXT + 1];
    time_t used;
    uint64_t bytes;
};

static int by_age(const void *a, const void *b)
{
    const struct cached *one = a, *other = b;
    return one->used < other->used ? -1 : one->used > other->used;
}

/* What its folder holds; with `remove`, no more. */
static uint64_t look_into(int folder, bool remove)
{
    uint64_t bytes = 0;
    DIR *entries = fdopendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        struct stat status;
        if (*entry->d_name == '.' ||
            fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        bytes += (uint64_t)status.st_size;
        if (remove)
            (void)unlinkat(folder, entry->d_name, 0);
    }
    if (entries)
        closedir(entries);
    else
        close(folder);
    return bytes;
}

static size_t list_folder(const char *path, struct cached *list, uint64_t *total)
{
    size_t count = 0;
    DIR *entries = opendir(path);
    for (struct dirent *entry;
         entries && count < MAX_CACHED_WHEELS && (entry = readdir(entries));) {
        struct stat status;
        int folder =
            *entry->d_name == '.' || strlen(entry->d_name) > SHA256_TEXT
                ? -1
                : openat(dirfd(entries), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (folder < 0 || fstat(folder, &status) < 0)
            continue;
        struct cached *cached = &list[count++];
        (void)snprintf(cached->name, sizeof cached->name, "%.64s", entry->d_name);
        cached->used = status.st_mtime;
        cached->bytes = look_into(folder, false);
        *total += cached->bytes;
    }
    if (entries)
        closedir(entries);
    return count;
}

static void trim_folder(const char *path, uint64_t limit)
{
    struct cached *list = malloc(MAX_CACHED_WHEELS * sizeof *list);
    _cleanup_free_ struct cached *freed = list;
    uint64_t total = 0;
    if (!list)
        return;
    size_t count = list_folder(path, list, &total);
    if (total <= limit)
        return;
    qsort(list, count, sizeof *list, by_age);
    for (size_t i = 0; i < count && total > limit; i++) {
        if (list[i].used > wall_seconds() - IN_USE_SECONDS && total <= 2 * limit)
            break;
        char one[PATH_MAX];
        (void)snprintf(one, sizeof one, "%s/%s", path, list[i].name);
        int folder = open(one, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (folder >= 0)
            total -= look_into(folder, true);
        (void)rmdir(one);
    }
}

static uint64_t notes_bytes;

static int add_size(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)path, (void)type, (void)where;
    notes_bytes += (uint64_t)status->st_size;
    return 0;
}

/* The folder itself stays: it stands in one that is not ours. A resolver that is at work just then may fail, and be asked again. */
static void forget_notes(uint64_t limit)
{
    notes_bytes = 0;
    (void)nftw(CACHE "/" CACHE_NOTES, add_size, 16, FTW_PHYS);
    if (notes_bytes > limit)
        (void)nftw(CACHE "/" CACHE_NOTES, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

void wheel_cache_trim(uint64_t limit)
{
    forget_notes(limit / 4);
    trim_folder(CACHE "/" CACHE_WHEELS, limit);
    run_lock = close_fd(run_lock);
    remove_unlocked();
}
