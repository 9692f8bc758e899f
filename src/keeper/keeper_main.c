/* husk-keeper: makes and removes containers for huskd. Root inside P, nobody outside; started by
 * the anchor, which also keeps what it needs to go on after a crash. It understands the fixed
 * messages of husk/keeper_protocol.h and nothing else.
 *
 * husk-keeper STATE IMAGE none|top|CGROUP CLIENT-UID LOG-LEVEL LOG-FORMAT CACHE, with the descriptors of
 * `enum keeper_descriptor`. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "keeper/fetch_start.h"
#include "keeper/filter.h"
#include "keeper/keeper.h"
#include "keeper/zygote.h"

enum {
    FIRST_SANDBOX_ID = 1000,
    ARGUMENTS = 8
};

/* The last id that P has. */
static int last_id(unsigned *ret, struct failure *why)
{
    char text[1024];
    ssize_t length = read_file_at(AT_FDCWD, "/proc/self/uid_map", text, sizeof text);
    if (length < 0)
        return fail(why, (int)length, "read /proc/self/uid_map");
    unsigned last = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        unsigned inside, count;
        if (sscanf(line, "%u %*u %u", &inside, &count) == 2 && inside + count - 1 > last)
            last = inside + count - 1;
    }
    if (last < FIRST_SANDBOX_ID + 1)
        return fail_plain(why, ERANGE, "there are only %u ids for sandboxes", last);
    *ret = last;
    return 0;
}

/* As P's root sees it: huskd has seen it with other eyes. */
static int check_image(const char *image, struct failure *why)
{
    static const char *const needed[] = {"opt/husk/kernel.py", "opt/venv/bin", "home/user",
                                         "run/husk",           "proc",         "dev"};
    if (strpbrk(image, ",:\\"))
        return fail_plain(why, EINVAL, "the path of the image, %s, must not contain , : or \\",
                          image);
    for (size_t i = 0; i < ARRAY_LENGTH(needed); i++) {
        char path[PATH_MAX];
        struct stat status;
        if (format_text(path, sizeof path, "%s/%s", image, needed[i]) < 0 ||
            stat(path, &status) < 0)
            return fail_plain(
                why, errno,
                "the image is not usable: %s: %s. Build it with `make image`, keep it where every "
                "user may go (such as /var/lib/husk), or name another with --image",
                path, strerror(errno));
    }
    return 0;
}

static int find_cgroups(const char *where, const char *state, struct cgroup_tree *tree,
                        struct failure *why)
{
    if (strcmp(where, "none") == 0)
        return 0;
    return cgroup_tree_find(state, strcmp(where, "top") == 0 ? NULL : where, tree, why);
}

static int take_back(struct keeper *keeper, struct failure *why)
{
    for (;;) {
        struct stored_message message;
        int fds[STORED_DESCRIPTORS];
        size_t count;
        int r = stored_receive(KEEPER_STORE_FD, &message, fds, &count);
        if (r != 1)
            return fail(why, r < 0 ? r : EPIPE, "take back descriptors from the anchor");
        if (message.type == STORED_END)
            return 0;
        keeper_restore(keeper, &message, fds, count);
    }
}

static void on_signal(const struct signalfd_siginfo *info _unused_, void *user _unused_)
{
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

/* The anchor is gone: the kernel is about to end this process too. */
static void anchor_gone(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    loop_stop(user, 1);
}

/* Sandboxes can be had without one. */
static void use_cache(struct container_host *host, const char *cache)
{
    struct failure why;
    if (!*cache)
        return;
    if (fetch_prepare(cache, &why) == 0)
        host->cache = cache;
    else
        log_event(LOG_WARNING, "no packages can be installed: the cache cannot be used", "reason",
                  why.text, NULL);
}

static int prepare(struct container_host *host, char **arguments, struct failure *why)
{
    static const int signals[] = {SIGCHLD, 0};
    uint64_t client;
    host->state = arguments[1];
    host->image = arguments[2];
    host->mount_point = must_format("%s/mnt", host->state);
    host->store_fd = KEEPER_STORE_FD;
    host->shim_program = KEEPER_SHIM_FD;
    host->init_program = KEEPER_INIT_FD;
    host->zygote_library = KEEPER_ZYGOTE_FD;
    host->porter_program = KEEPER_PORTER_FD;
    host->fetcher_program = KEEPER_FETCHER_FD;
    if (parse_u64(arguments[4], 0, UINT16_MAX, &client) < 0)
        return fail(why, EINVAL, "read the arguments");
    host->client = (uid_t)client;
    for (int fd = KEEPER_LISTEN_FD; fd <= KEEPER_FETCHER_FD; fd++)
        (void)set_cloexec(fd, true);
    host->loop = loop_new();
    if (!host->loop)
        return fail(why, errno, "make an event loop");
    int r = loop_signals(host->loop, signals, on_signal, NULL);
    if (r >= 0)
        r = check_image(host->image, why);
    if (r >= 0)
        r = find_cgroups(arguments[3], host->state, &host->cgroups, why);
    if (r < 0)
        return r;
    use_cache(host, arguments[7]);
    host->filter_fd = filter_compile(why);
    return host->filter_fd < 0 ? host->filter_fd : 0;
}

static int run(char **arguments, struct failure *why)
{
    struct container_host host = {0};
    unsigned last = 0;
    int r = prepare(&host, arguments, why);
    if (r >= 0)
        r = last_id(&last, why);
    if (r < 0)
        return r;
    struct keeper *keeper = keeper_new(&host, FIRST_SANDBOX_ID, last - FIRST_SANDBOX_ID);
    r = take_back(keeper, why);
    if (r < 0)
        return r;
    if (!source_add(host.loop, KEEPER_STORE_FD, EPOLLRDHUP, anchor_gone, host.loop))
        return fail(why, errno, "watch the anchor");
    host.zygote = zygote_new(&host);
    keeper_begin(keeper, KEEPER_LISTEN_FD);
    return loop_run(host.loop);
}

int main(int argc, char **argv)
{
    struct failure why = {0};
    uint64_t level, format;
    if (argc != ARGUMENTS || parse_u64(argv[5], 0, LOG_ERROR, &level) < 0 ||
        parse_u64(argv[6], 0, LOG_FORMAT_JSON, &format) < 0) {
        (void)fprintf(stderr, "husk-keeper is started by huskd; start that instead.\n");
        return 2;
    }
    log_setup("keeper", (enum log_level)level, (enum log_format)format);
    (void)prctl(PR_SET_NAME, "husk-keeper", 0, 0, 0);
    raise_descriptor_limit();
    int r = run(argv, &why);
    if (r < 0) {
        struct stored_message message = {.type = STORED_FAILED};
        (void)snprintf(message.text, sizeof message.text, "%s", why.text);
        (void)stored_send(KEEPER_STORE_FD, &message, NULL, 0);
    }
    return r != 0;
}
