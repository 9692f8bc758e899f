#include "fetcher/job.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/clock.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "base/text.h"
#include "fetcher/lock_file.h"
#include "fetcher/program.h"
#include "fetcher/wheel_cache.h"
#include "husk/fetch_protocol.h"

enum {
    MAX_ENVIRONMENT = 32,
    MAX_OPTIONS = 32 + 2 * MAX_REQUIREMENTS,
    MAX_LOCK_BYTES = 8 * MIB, /* torch has many wheels */
};

struct job {
    const json_t *order;
    void (*tell)(const char *line);
    struct buffer *errors;
    uint64_t deadline_ms;
    uint64_t bytes_left;
    const char *environment[MAX_ENVIRONMENT + 1];
    size_t variables;
};

static const char *text_of(const struct job *job, const char *key)
{
    const char *text = json_string_value(json_object_get(job->order, key));
    return text ? text : "";
}

static int write_text(const char *path, const char *text, size_t length, struct failure *why)
{
    _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : write_all(fd, text, length);
    return r < 0 ? fail(why, r, "write %s", path) : 0;
}

/* --- surroundings ----------------------------------------------------------------------------- */

/* Takes `entry`. */
static void add_variable(struct job *job, const char *entry)
{
    if (job->variables < MAX_ENVIRONMENT)
        job->environment[job->variables++] = entry;
}

static void add_list(struct job *job, const char *name, const char *key)
{
    _cleanup_buffer_ struct buffer text = BUFFER_LIMITED(64 * KIB);
    size_t i;
    const json_t *entry;
    json_array_foreach(json_object_get(job->order, key), i, entry)(void)
        buffer_printf(&text, "%s%s", i ? " " : "", json_string_value(entry));
    if (text.length)
        add_variable(job, must_format("%s=%s", name, buffer_text(&text)));
}

static const char *const retries[] = {[false] = "UV_HTTP_RETRIES=0", [true] = "UV_HTTP_RETRIES=2"};

/* Secrets, such as those in the addresses of indexes, are handed over in the environment: it is nobody else's. */
static int prepare(struct job *job, struct failure *why)
{
    static const char *const fixed[] = {"PATH=/usr/bin:/bin",
                                        "HOME=/tmp",
                                        "LANG=C.UTF-8",
                                        "UV_CACHE_DIR=/mnt/" CACHE_NOTES,
                                        "UV_PYTHON_DOWNLOADS=never",
                                        "UV_HTTP_TIMEOUT=30",
                                        "UV_CONCURRENT_DOWNLOADS=8",
                                        "TOKIO_WORKER_THREADS=2",
                                        "RAYON_NUM_THREADS=2",
                                        "UV_KEYRING_PROVIDER=disabled",
                                        "UV_NO_PROGRESS=1"};
    add_variable(job, retries[true]); /* the first: resolve() changes it */
    for (size_t i = 0; i < ARRAY_LENGTH(fixed); i++)
        add_variable(job, fixed[i]);
    if (*text_of(job, "index"))
        add_variable(job, must_format("UV_DEFAULT_INDEX=%s", text_of(job, "index")));
    add_list(job, "UV_INDEX", "extra_indexes");
    add_list(job, "UV_INSECURE_HOST", "insecure_hosts");
    const char *name;
    const json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json_object_get(job->order, "environment"), name,
                        value)
        add_variable(job, must_format("%s=%s", name, json_string_value(value)));
    const char *certificates = text_of(job, "certificates");
    if (!*certificates)
        return 0;
    add_variable(job, "SSL_CERT_FILE=/tmp/certificates.pem");
    add_variable(job, "CURL_CA_BUNDLE=/tmp/certificates.pem");
    return write_text("/tmp/certificates.pem", certificates, strlen(certificates), why);
}

/* --- resolving -------------------------------------------------------------------------------- */

static int write_requirements(const struct job *job, struct failure *why)
{
    _cleanup_buffer_ struct buffer text = BUFFER_LIMITED(2 * MAX_REQUIREMENTS_BYTES);
    size_t i;
    const json_t *entry;
    int r = 0;
    json_array_foreach(json_object_get(job->order, "requirements"), i, entry) r =
        r < 0 ? r : buffer_printf(&text, "%s\n", json_string_value(entry));
    return r < 0 ? fail(why, r, "write the requirements")
                 : write_text("/tmp/requirements.in", text.data, text.length, why);
}

/* What the sandbox has is preferred, as pip does it: in the form of an earlier answer. */
static int write_preferences(const struct job *job, struct failure *why)
{
    _cleanup_buffer_ struct buffer text = BUFFER_LIMITED(2 * MIB);
    int r = buffer_append_text(&text, "lock-version = \"1.0\"\ncreated-by = \"husk\"\n");
    size_t i;
    const json_t *entry;
    json_array_foreach(json_object_get(job->order, "installed"), i, entry)
    {
        const char *pin = json_string_value(entry);
        const char *equals = strstr(pin, "==");
        if (equals && r == 0)
            r = buffer_printf(&text,
                              "[[packages]]\nname = \"%.*s\"\nversion = \"%s\"\nwheels = []\n",
                              (int)(equals - pin), pin, equals + 2);
    }
    return r < 0 ? fail(why, r, "write the preferences")
                 : write_text("/tmp/pylock.toml", text.data, text.length, why);
}

static int run_resolver(struct job *job, bool offline, struct failure *why)
{
    const char *arguments[MAX_OPTIONS] = {"/opt/tools/uv",
                                          "pip",
                                          "compile",
                                          "--quiet",
                                          "--no-config",
                                          "--color",
                                          "never",
                                          "--python",
                                          "/usr/bin/python3.13",
                                          "--only-binary",
                                          ":all:",
                                          "--format",
                                          "pylock.toml",
                                          "--no-header",
                                          "--no-annotate",
                                          "--no-sources",
                                          "--output-file",
                                          "/tmp/pylock.toml",
                                          "/tmp/requirements.in"};
    size_t count = 0;
    while (arguments[count])
        count++;
    const struct {
        bool wanted;
        const char *option;
    } options[] = {{offline, "--offline"},
                   {json_is_true(json_object_get(job->order, "pre")), "--prerelease=allow"},
                   {json_is_true(json_object_get(job->order, "no_deps")), "--no-deps"}};
    for (size_t i = 0; i < ARRAY_LENGTH(options); i++) {
        if (options[i].wanted)
            arguments[count++] = options[i].option;
    }
    size_t i;
    const json_t *name;
    json_array_foreach(json_object_get(job->order, "upgrade"), i, name)
    {
        if (count + 3 > ARRAY_LENGTH(arguments))
            break;
        arguments[count++] = "--upgrade-package";
        arguments[count++] = json_string_value(name);
    }
    buffer_clear(job->errors);
    int r = write_preferences(job, why);
    if (r < 0)
        return r;
    struct program program = {.arguments = arguments,
                              .environment = job->environment,
                              .deadline_ms = job->deadline_ms,
                              .largest_file = MAX_LOCK_BYTES * 8,
                              .errors = job->errors};
    return program_run(&program, why);
}

/* 0, 1: there is no solution, or the index cannot be reached; -errno. */
static int try_to_resolve(struct job *job, bool offline, bool patient, bool *hopeless,
                          struct failure *why)
{
    job->environment[0] = retries[patient];
    int r = run_resolver(job, offline, why);
    const char *said = buffer_text(job->errors);
    *hopeless = r > 0 && said && strstr(said, "No solution found");
    return r > 0 ? 1 : r;
}

/* An index that cannot be reached is no reason to do without what is here, nor to wait for it first. */
static int resolve(struct job *job, bool *offline, struct failure *why)
{
    bool hopeless;
    *offline = false;
    int r = write_requirements(job, why);
    if (r == 0)
        r = try_to_resolve(job, false, false, &hopeless, why);
    if (r > 0 && !hopeless) {
        *offline = true;
        r = try_to_resolve(job, true, false, &hopeless, why);
    }
    if (r > 0 && *offline) {
        *offline = false;
        r = try_to_resolve(job, false, true, &hopeless, why);
    }
    return r > 0 ? fail_plain(why, ENOENT, "unsatisfiable") : r;
}

static int read_lock(struct lock_file *lock, struct failure *why)
{
    _cleanup_free_ char *text = malloc(MAX_LOCK_BYTES);
    ssize_t length =
        text ? read_file_at(AT_FDCWD, "/tmp/pylock.toml", text, MAX_LOCK_BYTES) : -ENOMEM;
    return length < 0 ? fail(why, (int)length, "read the resolver's answer")
                      : lock_file_read(text, lock, why);
}

/* --- downloading ------------------------------------------------------------------------------ */

static bool is_installed(const struct job *job, const struct locked_package *package)
{
    char pin[MAX_PACKAGE_NAME + MAX_PACKAGE_VERSION + 3];
    (void)snprintf(pin, sizeof pin, "%s==%s", package->name, package->version);
    size_t i;
    const json_t *entry;
    json_array_foreach(json_object_get(job->order, "installed"), i, entry)
    {
        if (!strcmp(json_string_value(entry), pin))
            return true;
    }
    return false;
}

/* Who to be for the server of this file: "user:password" of an index on the same server. */
static void add_credentials(const struct job *job, const char *url, struct buffer *text)
{
    const json_t *extra = json_object_get(job->order, "extra_indexes");
    for (size_t i = 0; i <= json_array_size(extra); i++) {
        const char *index =
            i ? json_string_value(json_array_get(extra, i - 1)) : text_of(job, "index");
        const char *slashes = strstr(index, "://");
        const char *at = slashes ? strpbrk(slashes + 3, "@/") : NULL;
        const char *host = strstr(url, "://");
        if (!at || *at != '@' || !host)
            continue;
        size_t length = strcspn(at + 1, "/") + 0;
        if (strncmp(host + 3, at + 1, length) != 0 || strcspn(host + 3, "/") != length ||
            strncmp(index, url, (size_t)(slashes - index) + 3) != 0)
            continue;
        /* curl decodes what stands in an address. */
        (void)buffer_printf(text, "%.*s://%.*s@%s", (int)(slashes - index), index,
                            (int)(at - slashes - 3), slashes + 3, host + 3);
        return;
    }
    (void)buffer_append_text(text, url);
}

/* Is it on a host whose certificate does not matter? "host" or "host:port". */
static bool is_trusted(const struct job *job, const char *url)
{
    const char *host = strstr(url, "://") + 3;
    size_t whole = strcspn(host, "/"), name = strcspn(host, ":/"), i;
    const json_t *entry;
    json_array_foreach(json_object_get(job->order, "insecure_hosts"), i, entry)
    {
        size_t length = json_string_length(entry);
        if ((length == whole || length == name) &&
            !strncasecmp(host, json_string_value(entry), length))
            return true;
    }
    return false;
}

static int download(struct job *job, unsigned number, const struct locked_package *package,
                    struct failure *why)
{
    char part[PATH_MAX], line[MAX_WHEEL_NAME + 32];
    _cleanup_buffer_ struct buffer config = BUFFER_LIMITED(16 * KIB);
    _cleanup_buffer_ struct buffer url = BUFFER_LIMITED(8 * KIB);
    (void)snprintf(line, sizeof line, "  Downloading %s", package->file);
    job->tell(line);
    wheel_cache_part(number, part);
    add_credentials(job, package->url, &url);
    int r =
        buffer_printf(&config,
                      "silent\nshow-error\nfail\nlocation\nproto = \"=http,https\"\nretry = 2\n"
                      "connect-timeout = 15\nmax-filesize = %llu\noutput = \"%s\"\nurl = \"%s\"\n",
                      (unsigned long long)job->bytes_left, part, buffer_text(&url));
    if (r == 0 && is_trusted(job, package->url))
        r = buffer_append_text(&config,
                               "insecure\n"); /* the hash says whether it is the right file */
    if (r < 0)
        return fail_plain(why, E2BIG, "the address of %s is too long", package->file);
    const char *arguments[] = {"/usr/bin/curl", "--disable", "--config", "-", NULL};
    buffer_clear(job->errors);
    struct program program = {.arguments = arguments,
                              .environment = job->environment,
                              .input = buffer_text(&config),
                              .deadline_ms = job->deadline_ms,
                              .largest_file = job->bytes_left,
                              .errors = job->errors};
    r = program_run(&program, why);
    if (r < 0)
        return r;
    if (r != 0) {
        bool large =
            (WIFEXITED(r) && WEXITSTATUS(r) == 63) || (WIFSIGNALED(r) && WTERMSIG(r) == SIGXFSZ);
        (void)unlink(part);
        return large ? fail_plain(why, EFBIG,
                                  "it is larger than what may be downloaded (max_download_mb)")
                     : fail_plain(why, EIO, "%s could not be downloaded", package->file);
    }
    return 0;
}

static int have_wheel(struct job *job, unsigned number, struct locked_package *package,
                      bool offline, struct failure *why)
{
    uint64_t bytes;
    if (*package->sha256 && wheel_cache_has(package->sha256, package->file)) {
        char line[MAX_WHEEL_NAME + 32];
        (void)snprintf(line, sizeof line, "  Using cached %s", package->file);
        job->tell(line);
        return 0;
    }
    if (!package->url)
        return fail_plain(why, ENOENT, "there is no wheel of %s %s", package->name,
                          package->version);
    if (offline)
        return fail_plain(why, ENETUNREACH,
                          "the index cannot be reached, and %s is not in the cache", package->file);
    int r = download(job, number, package, why);
    if (r == 0) {
        buffer_clear(job->errors);
        r = wheel_cache_take(number, package->file, package->sha256, &bytes, why);
    }
    if (r == 0)
        job->bytes_left -= bytes < job->bytes_left ? bytes : job->bytes_left;
    return r;
}

static json_t *describe(const struct locked_package *package, bool installed)
{
    json_t *json = json_pack("{s:s, s:s}", "name", package->name, "version", package->version);
    if (json && !installed) {
        (void)json_object_set_new(json, "sha256", json_string(package->sha256));
        (void)json_object_set_new(json, "file", json_string(package->file));
    }
    return json;
}

static json_t *fetch_all(struct job *job, struct lock_file *lock, bool offline, struct failure *why)
{
    json_t *packages = json_array();
    for (size_t i = 0; i < lock->count; i++) {
        struct locked_package *package = &lock->packages[i];
        bool installed = is_installed(job, package);
        int r = installed ? 0 : have_wheel(job, (unsigned)i, package, offline, why);
        if (r < 0) {
            json_decref(packages);
            return NULL;
        }
        (void)json_array_append_new(packages, describe(package, installed));
    }
    return packages;
}

json_t *job_run(const json_t *order, void (*tell)(const char *line), struct buffer *errors)
{
    struct job job = {.order = order, .tell = tell, .errors = errors};
    struct failure why = {0};
    struct lock_file lock = {0};
    json_t *packages = NULL;
    bool offline;
    job.deadline_ms = now_ms() + (uint64_t)json_integer_value(json_object_get(order, "timeout_ms"));
    job.bytes_left = (uint64_t)json_integer_value(json_object_get(order, "max_bytes"));
    int r = wheel_cache_begin(&why);
    if (r == 0)
        r = prepare(&job, &why);
    if (r == 0)
        r = resolve(&job, &offline, &why);
    if (r == 0)
        r = read_lock(&lock, &why);
    if (r == 0)
        packages = fetch_all(&job, &lock, offline, &why);
    lock_file_free(&lock);
    if (packages)
        return json_pack("{s:o, s:b}", "packages", packages, "offline", offline);
    if (strcmp(why.text, "unsatisfiable") != 0)
        (void)buffer_printf(errors, "%s%s", errors->length ? "\n" : "", why.text);
    return NULL;
}

void job_clean_up(const json_t *order)
{
    wheel_cache_trim((uint64_t)json_integer_value(json_object_get(order, "cache_bytes")));
}
