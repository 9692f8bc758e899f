#include "huskd/package_source.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/text.h"
#include "husk/limits.h"
#include "huskd/config.h"

struct package_source {
    char *index; /* "": the installer's own default */
    char *extra_indexes;
    char *insecure_hosts;
    char *certificates_path;
    char *certificates; /* PEM, or NULL */
    char *proxy, *no_proxy;
};

#define AT(field) offsetof(struct package_source, field)
static const struct {
    const char *key; /* of pip.conf */
    size_t offset;
    bool list;
} pip_settings[] = {{"index-url", AT(index), false},
                    {"extra-index-url", AT(extra_indexes), true},
                    {"trusted-host", AT(insecure_hosts), true},
                    {"cert", AT(certificates_path), false},
                    {"proxy", AT(proxy), false}};
enum {
    PIP_SETTINGS = ARRAY_LENGTH(pip_settings)
};

/* --- this machine's pip ----------------------------------------------------------------------- */

static void fill(char **place, const char *value)
{
    if (**place || !value || !*value)
        return;
    free(*place);
    *place = must_copy(value);
}

struct pip_file {
    struct package_source *source;
    bool silent[PIP_SETTINGS]; /* nobody before this file has set it */
};

/* Several values stand in several lines, and come one by one. */
static int take_pip_setting(void *user, const char *section, const char *key, const char *value)
{
    struct pip_file *file = user;
    char name[32];
    if (strcmp(section, "global") != 0 && strcmp(section, "install") != 0)
        return 1;
    (void)snprintf(name, sizeof name, "%s", key);
    for (char *c = name; *c; c++)
        *c = *c == '_' ? '-' : (char)tolower((unsigned char)*c);
    for (size_t i = 0; i < PIP_SETTINGS; i++) {
        char **place = (char **)((char *)file->source + pip_settings[i].offset);
        if (strcmp(name, pip_settings[i].key) != 0 || !file->silent[i])
            continue;
        if (!pip_settings[i].list || !**place) {
            fill(place, value);
        } else {
            char *longer = must_format("%s %s", *place, value);
            free(*place);
            *place = longer;
        }
    }
    return 1;
}

static void read_pip_file(struct package_source *source, const char *path)
{
    struct pip_file file = {.source = source};
    for (size_t i = 0; i < PIP_SETTINGS; i++)
        file.silent[i] = !**(char **)((char *)source + pip_settings[i].offset);
    (void)ini_parse(path, take_pip_setting, &file);
}

/* The user's file wins over the machine's, so it comes first: what is set stays. */
static void read_pip_files(struct package_source *source)
{
    char path[PATH_MAX];
    const char *named = getenv("PIP_CONFIG_FILE"), *home = getenv("HOME");
    const char *config_home = getenv("XDG_CONFIG_HOME");
    if (named && *named) {
        read_pip_file(source, named);
        if (!strcmp(named, "/dev/null"))
            return;
    }
    if (home && format_text(path, sizeof path, "%s/.pip/pip.conf", home) == 0)
        read_pip_file(source, path);
    if (config_home && format_text(path, sizeof path, "%s/pip/pip.conf", config_home) == 0)
        read_pip_file(source, path);
    else if (home && format_text(path, sizeof path, "%s/.config/pip/pip.conf", home) == 0)
        read_pip_file(source, path);
    read_pip_file(source, "/etc/xdg/pip/pip.conf");
    read_pip_file(source, "/etc/pip.conf");
}

static void read_environment(struct package_source *source)
{
    const struct {
        const char *name;
        char **place;
    } variables[] = {{"PIP_INDEX_URL", &source->index},
                     {"UV_DEFAULT_INDEX", &source->index},
                     {"UV_INDEX_URL", &source->index},
                     {"PIP_EXTRA_INDEX_URL", &source->extra_indexes},
                     {"UV_INDEX", &source->extra_indexes},
                     {"UV_EXTRA_INDEX_URL", &source->extra_indexes},
                     {"PIP_TRUSTED_HOST", &source->insecure_hosts},
                     {"UV_INSECURE_HOST", &source->insecure_hosts},
                     {"PIP_CERT", &source->certificates_path},
                     {"SSL_CERT_FILE", &source->certificates_path},
                     {"REQUESTS_CA_BUNDLE", &source->certificates_path},
                     {"PIP_PROXY", &source->proxy},
                     {"HTTPS_PROXY", &source->proxy},
                     {"https_proxy", &source->proxy},
                     {"ALL_PROXY", &source->proxy},
                     {"all_proxy", &source->proxy},
                     {"HTTP_PROXY", &source->proxy},
                     {"http_proxy", &source->proxy},
                     {"NO_PROXY", &source->no_proxy},
                     {"no_proxy", &source->no_proxy}};
    for (size_t i = 0; i < ARRAY_LENGTH(variables); i++)
        fill(variables[i].place, getenv(variables[i].name));
}

/* Bundles of the distributions, if nobody names one. */
static void find_certificates(struct package_source *source)
{
    static const char *const known[] = {"/etc/ssl/certs/ca-certificates.crt",
                                        "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};
    for (size_t i = 0; i < ARRAY_LENGTH(known); i++) {
        if (access(known[i], R_OK) == 0)
            fill(&source->certificates_path, known[i]);
    }
}

static int read_certificates(struct package_source *source, struct failure *why)
{
    find_certificates(source);
    if (!*source->certificates_path)
        return 0;
    source->certificates = malloc(MAX_CERTIFICATES_BYTES);
    ssize_t length = source->certificates
                         ? read_file_at(AT_FDCWD, source->certificates_path, source->certificates,
                                        MAX_CERTIFICATES_BYTES)
                         : -ENOMEM;
    if (length < 0)
        return fail(why, (int)length, "read the certificates for packages, %s",
                    source->certificates_path);
    if (!utf8_valid(source->certificates, (size_t)length))
        return fail_plain(why, EINVAL, "%s is not a bundle of certificates in PEM form",
                          source->certificates_path);
    return 0;
}

int package_source_new(const struct config *config, struct package_source **ret,
                       struct failure *why)
{
    struct package_source *source = must_alloc(sizeof *source);
    source->index = must_copy(config->package_index);
    source->extra_indexes = must_copy(config->package_extra_indexes);
    source->insecure_hosts = must_copy(config->package_trusted_hosts);
    source->certificates_path = must_copy(config->package_ca);
    source->proxy = must_copy(config->package_proxy);
    source->no_proxy = must_copy(config->package_no_proxy);
    bool chosen = *source->index;
    read_environment(source);
    read_pip_files(source);
    /* Who names an index means that one, and not also those of this machine's pip. */
    if (chosen && strcmp(source->extra_indexes, config->package_extra_indexes) != 0) {
        free(source->extra_indexes);
        source->extra_indexes = must_copy(config->package_extra_indexes);
    }
    int r = read_certificates(source, why);
    if (r < 0)
        return package_source_free(source), r;
    *ret = source;
    return 0;
}

struct package_source *package_source_free(struct package_source *source)
{
    if (!source)
        return NULL;
    char *const texts[] = {source->index,          source->extra_indexes,
                           source->insecure_hosts, source->certificates_path,
                           source->certificates,   source->proxy,
                           source->no_proxy};
    for (size_t i = 0; i < ARRAY_LENGTH(texts); i++)
        free(texts[i]);
    free(source);
    return NULL;
}

/* --- for the fetcher -------------------------------------------------------------------------- */

static json_t *words(const char *text)
{
    json_t *list = json_array();
    while (*text) {
        text += strspn(text, ", \t\r\n");
        size_t length = strcspn(text, ", \t\r\n");
        if (length > 0)
            (void)json_array_append_new(list, json_stringn(text, length));
        text += length;
    }
    return list;
}

void package_source_describe(const struct package_source *source, json_t *order)
{
    json_t *environment = json_object();
    static const char *const names[] = {"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"};
    for (size_t i = 0; *source->proxy && i < ARRAY_LENGTH(names); i++)
        (void)json_object_set_new(environment, names[i], json_string(source->proxy));
    if (*source->no_proxy) {
        (void)json_object_set_new(environment, "NO_PROXY", json_string(source->no_proxy));
        (void)json_object_set_new(environment, "no_proxy", json_string(source->no_proxy));
    }
    (void)json_object_set_new(order, "environment", environment);
    (void)json_object_set_new(order, "index", json_string(source->index));
    (void)json_object_set_new(order, "extra_indexes", words(source->extra_indexes));
    (void)json_object_set_new(order, "insecure_hosts", words(source->insecure_hosts));
    (void)json_object_set_new(order, "certificates",
                              json_string(source->certificates ? source->certificates : ""));
}

/* "user:password" of an address, wherever it occurs. */
static void redact_address(const char *address, size_t length, char *text)
{
    const char *slashes = memmem(address, length, "://", 3);
    const char *start = slashes ? slashes + 3 : address;
    const char *at = slashes ? memchr(start, '@', length - (size_t)(start - address)) : NULL;
    if (!at || at == start)
        return;
    const char *colon = memchr(start, ':', (size_t)(at - start));
    const struct {
        const char *from, *to;
    } parts[] = {{start, at}, {colon ? colon + 1 : start, at}};
    for (size_t i = 0; i < ARRAY_LENGTH(parts); i++) {
        size_t secret = (size_t)(parts[i].to - parts[i].from);
        for (char *found = text;
             secret >= 4 && (found = memmem(found, strlen(found), parts[i].from, secret));
             found += secret)
            memset(found, '*', secret);
    }
}

void package_source_redact(const struct package_source *source, char *text)
{
    const char *const lists[] = {source->index, source->extra_indexes, source->proxy};
    for (size_t i = 0; i < ARRAY_LENGTH(lists); i++) {
        for (const char *at = lists[i]; *at;) {
            at += strspn(at, ", \t\r\n");
            size_t length = strcspn(at, ", \t\r\n");
            redact_address(at, length, text);
            at += length;
        }
    }
}

/* --- the cache -------------------------------------------------------------------------------- */

int package_cache_make(const struct config *config, struct failure *why)
{
    _cleanup_free_ char *path = must_copy(config->package_cache);
    for (char *at = path + 1;; at++) {
        at += strcspn(at, "/");
        bool last = !*at;
        *at = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST)
            return fail(why, errno, "make the package cache, %s", path);
        if (last)
            break;
        *at = '/';
    }
    struct stat status;
    if (stat(path, &status) < 0)
        return fail(why, errno, "use the package cache, %s", path);
    /* Only what nobody has made his own yet. */
    if (geteuid() == 0 && status.st_uid == 0 &&
        chown(path, (uid_t)config->id_base, (gid_t)config->id_base) < 0)
        return fail(why, errno, "give %s to uid %llu", path, (unsigned long long)config->id_base);
    return 0;
}
