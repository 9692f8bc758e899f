#include "huskd/anchor_start.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/text.h"
#include "huskd/config.h"
#include "huskd/state_directory.h"

#define ANCHOR_NAME  "husk-anchor"
#define IMAGE_MARKER "opt/husk/image.json" /* the last thing a build of the image writes */

enum {
    READY_MS = 20 * 1000,
    PREVIOUS_MS = 20 * 1000,
    STEP_MS = 50
};

int image_check(const char *path, struct failure *why)
{
    char marker[PATH_MAX];
    struct stat status;
    if (stat(path, &status) < 0)
        return fail_plain(
            why, errno,
            "no kernel image at %.120s (%s). Build one with `make image`, or say where "
            "it is with --image",
            path, strerror(errno));
    if (format_text(marker, sizeof marker, "%s/" IMAGE_MARKER, path) < 0)
        return fail(why, ENAMETOOLONG, "%.120s", path);
    /* A user's subordinate ids may own an image that the user cannot look into; the keeper can. */
    if (stat(marker, &status) == 0 || errno == EACCES)
        return 0;
    return fail_plain(why, EINVAL,
                      "%.120s is not a whole kernel image: " IMAGE_MARKER
                      " is missing. Build it again with `make image`",
                      path);
}

/* Beside huskd (a build directory), or where `make install` puts it. */
static int find_program(char path[PATH_MAX], struct failure *why)
{
    char self[PATH_MAX / 2];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return fail(why, errno, "read /proc/self/exe");
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    (void)format_text(path, PATH_MAX, "%s/" ANCHOR_NAME, self);
    if (access(path, X_OK) == 0)
        return 0;
#ifdef HUSK_LIBEXEC_DIR
    (void)format_text(path, PATH_MAX, "%s/" ANCHOR_NAME, HUSK_LIBEXEC_DIR);
    if (access(path, X_OK) == 0)
        return 0;
#endif
    return fail_plain(why, ENOENT,
                      ANCHOR_NAME " is not beside huskd in %.120s. Run `make build`, or `make "
                                  "install`",
                      self);
}

/* Keys and passwords of huskd's environment are not for its children: API key, addresses of package indexes and proxies. */
static void forget_secrets(void)
{
    static const char *const kinds[] = {"HUSK_*", "PIP_*", "UV_*", "*_PROXY", "*_proxy"};
    for (char **entry = environ; *entry;) {
        char name[128];
        bool secret = false;
        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(*entry, "="), *entry);
        for (size_t i = 0; i < ARRAY_LENGTH(kinds); i++)
            secret = secret || fnmatch(kinds[i], name, 0) == 0;
        if (secret && unsetenv(name) == 0)
            entry = environ; /* the list has moved up */
        else
            entry++;
    }
}

static _noreturn_ void exec_anchor(const struct config *config, const char *program, int ready)
{
    char base[16], descriptor[16], level[16], format[16];
    (void)snprintf(base, sizeof base, "%u", (unsigned)config->id_base);
    (void)snprintf(descriptor, sizeof descriptor, "%d", ready);
    (void)snprintf(level, sizeof level, "%d", config->log_level);
    (void)snprintf(format, sizeof format, "%d", (int)log_current_format());
    const char *argv[] = {ANCHOR_NAME,
                          "--state",
                          config->state,
                          "--image",
                          config->image,
                          "--id-base",
                          base,
                          "--ready-fd",
                          descriptor,
                          "--log-level",
                          level,
                          "--log-format",
                          format,
                          "--cache",
                          config->packages ? config->package_cache : "",
                          config->no_limits ? "--no-limits" : NULL,
                          NULL};
    /* Its own session: Ctrl-C in huskd's terminal must not reach it. Its own stdio: whoever reads
     * huskd's output must not wait for the anchor too. */
    (void)setsid();
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)dup2(nothing, STDIN_FILENO);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    (void)set_cloexec(ready, false);
    forget_secrets();
    sigset_t none; /* huskd has some blocked, to take them from its loop */
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)execv(program, (char *const *)(uintptr_t)argv);
    _exit(127);
}

/* What the anchor says until it closes its end: at most one line. */
static int read_answer(int fd, char *text, size_t size)
{
    size_t length = 0;
    uint64_t until = now_ms() + READY_MS;
    for (uint64_t now = now_ms(); now < until && length < size - 1; now = now_ms()) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = poll(&wait, 1, (int)(until - now));
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready <= 0)
            continue;
        ssize_t got = read_some(fd, text + length, size - 1 - length);
        if (got < 0)
            return (int)got;
        length += (size_t)got;
        text[length] = '\0';
        if (got == 0 || strchr(text, '\n'))
            return 0;
    }
    return length < size - 1 ? -ETIMEDOUT : 0;
}

static int judge(const char *text, int r, struct failure *why)
{
    if (r == -ETIMEDOUT)
        return fail_plain(why, ETIMEDOUT,
                          "husk-anchor did not become ready within %d seconds; its log is above",
                          READY_MS / 1000);
    if (r < 0)
        return fail(why, r, "read from husk-anchor");
    if (!strcmp(text, "ok\n"))
        return 0;
    if (!*text)
        return fail_plain(why, EIO, "husk-anchor ended without saying why; its log is above");
    return fail_plain(why, EIO, "%.*s", (int)strcspn(text, "\n"), text);
}

/* A service that was stopped a moment ago may still be cleaning up. */
static int wait_for_previous(const struct config *config, struct failure *why)
{
    uint64_t until = now_ms() + PREVIOUS_MS;
    while (state_directory_abandoned(config->state) == -EWOULDBLOCK) {
        if (now_ms() > until)
            return fail_plain(
                why, EBUSY,
                "a previous Husk still holds %.120s but its keeper does not answer; end "
                "its husk-anchor processes",
                config->state);
        (void)poll(NULL, 0, STEP_MS);
    }
    return 0;
}

int anchor_start(const struct config *config, struct failure *why)
{
    char program[PATH_MAX];
    int r = find_program(program, why);
    if (r == 0)
        r = image_check(config->image, why);
    if (r == 0)
        r = wait_for_previous(config, why);
    if (r < 0)
        return r;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return fail(why, errno, "make a pipe");
    _cleanup_close_ int reader = ends[0];
    int writer = ends[1];
    pid_t child = fork();
    if (child == 0)
        exec_anchor(config, program, writer);
    close(writer);
    if (child < 0)
        return fail(why, errno, "start %.120s", program);
    char text[sizeof why->text] = "";
    r = read_answer(reader, text, sizeof text);
    r = judge(text, r, why);
    if (r == -ETIMEDOUT)
        (void)kill(child, SIGTERM);
    return r;
}
