#include "fetcher/lock_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"
#include "base/memory.h"
#include "base/text.h"

static bool made_of(const char *text, const char *others)
{
    for (; *text; text++) {
        if (!isalnum((unsigned char)*text) && !strchr(others, *text))
            return false;
    }
    return true;
}

/* The text in quotes after `key = `, cut out of the line. NULL: there is none. */
static char *quoted(char *line, const char *key, char **rest)
{
    char *at = strstr(line, key);
    char *start = at ? at + strlen(key) : NULL;
    char *end = start ? strchr(start, '"') : NULL;
    if (!end)
        return NULL;
    *end = '\0';
    *rest = end + 1;
    return start;
}

/* One that is made for this Python is better than one for many, and that better than one for all. */
static int rank_of(const char *file)
{
    if (strstr(file, "-abi3-"))
        return 2;
    return strstr(file, "-none-any.whl") ? 1 : 3;
}

/* The last part of an address, decoded: a version may hold a '+'. 0: it is too long. */
static size_t file_of(const char *url, char file[MAX_WHEEL_NAME + 1])
{
    size_t length = 0;
    const char *at = strrchr(url, '/');
    for (at = at ? at + 1 : ""; *at && *at != '?' && *at != '#'; at++) {
        unsigned code;
        if (length == MAX_WHEEL_NAME)
            return 0;
        if (*at == '%' && sscanf(at + 1, "%2x", &code) == 1) {
            file[length++] = (char)code;
            at += 2;
        } else {
            file[length++] = *at;
        }
    }
    file[length] = '\0';
    return strlen(file) == length ? length : 0;
}

static int take_wheel(struct locked_package *package, const char *url, const char *sha256,
                      struct failure *why)
{
    char file[MAX_WHEEL_NAME + 1];
    size_t length = file_of(url, file);
    if ((!starts_with(url, "https://") && !starts_with(url, "http://")) ||
        !made_of(url, "-._~:/?#[]@!$&'()*+,;=%") || length < 5 ||
        strcmp(file + length - 4, ".whl") != 0 || !made_of(file, "-._+!") || *file == '.')
        return fail_plain(why, EPROTO, "the index names a strange file for %s", package->name);
    if (*sha256 &&
        (strlen(sha256) != SHA256_TEXT || strspn(sha256, "0123456789abcdef") != SHA256_TEXT))
        return fail_plain(why, EPROTO, "the index names a strange hash for %s", package->name);
    int rank = rank_of(file);
    if (package->url && package->rank >= rank)
        return 0;
    free(package->url);
    package->url = must_copy(url);
    package->rank = rank;
    (void)snprintf(package->file, sizeof package->file, "%s", file);
    (void)snprintf(package->sha256, sizeof package->sha256, "%s", sha256);
    return 0;
}

/* One line may hold one wheel, or the list of a single one. */
static int take_wheels(struct locked_package *package, char *line, struct failure *why)
{
    char *rest = line;
    for (char *url; (url = quoted(rest, "{ url = \"", &rest));) {
        char *next = strstr(rest, "{ url = \"");
        char *hash = strstr(rest, "sha256 = \"");
        const char *sha256 = "";
        if (hash && (!next || hash < next)) {
            sha256 = hash + strlen("sha256 = \"");
            char *end = strchr(hash + strlen("sha256 = \""), '"');
            if (!end)
                return fail_plain(why, EPROTO, "the resolver's answer cannot be read");
            *end = '\0';
            rest = end + 1;
        }
        int r = take_wheel(package, url, sha256, why);
        if (r < 0)
            return r;
    }
    return 0;
}

static int take_line(struct lock_file *lock, char *line, struct failure *why)
{
    struct locked_package *package = lock->count ? &lock->packages[lock->count - 1] : NULL;
    char *rest;
    if (!strcmp(line, "[[packages]]")) {
        if (lock->count == MAX_INSTALL_PACKAGES)
            return fail_plain(why, E2BIG, "it would need more than %d packages",
                              MAX_INSTALL_PACKAGES);
        lock->packages[lock->count++] = (struct locked_package){0};
        return 0;
    }
    if (!package)
        return 0;
    const struct {
        const char *key;
        char *place;
        size_t size;
        const char *others;
    } fields[] = {{"name = \"", package->name, sizeof package->name, "-._"},
                  {"version = \"", package->version, sizeof package->version, "-._+!"}};
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        if (!starts_with(line, fields[i].key))
            continue;
        const char *value = quoted(line, fields[i].key, &rest);
        if (!value || !*value || strlen(value) >= fields[i].size ||
            !made_of(value, fields[i].others))
            return fail_plain(why, EPROTO, "the resolver's answer cannot be read");
        memcpy(fields[i].place, value, strlen(value) + 1);
        return 0;
    }
    if (starts_with(line, "wheels = [") || starts_with(line, "    { url = "))
        return take_wheels(package, line, why);
    return 0;
}

int lock_file_read(char *text, struct lock_file *lock, struct failure *why)
{
    char *rest = NULL;
    int r = 0;
    lock->packages = must_alloc(MAX_INSTALL_PACKAGES * sizeof *lock->packages);
    for (char *line = strtok_r(text, "\n", &rest); line && r == 0;
         line = strtok_r(NULL, "\n", &rest))
        r = take_line(lock, line, why);
    for (size_t i = 0; i < lock->count && r == 0; i++) {
        if (!*lock->packages[i].name || !*lock->packages[i].version)
            r = fail_plain(why, EPROTO, "the resolver's answer cannot be read");
    }
    return r;
}

void lock_file_free(struct lock_file *lock)
{
    for (size_t i = 0; i < lock->count; i++)
        free(lock->packages[i].url);
    free(lock->packages);
    *lock = (struct lock_file){0};
}
