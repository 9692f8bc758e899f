/* husk-shim <sandbox-id> <uid> <log level> <log format>: started by the keeper, with the descriptors of enum
 * shim_descriptor, as root of the keeper's user namespace. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/failure.h"
#include "base/fdio.h"
#include "base/id.h"
#include "base/json_memory.h"
#include "base/log.h"
#include "base/text.h"
#include "husk/confine.h"
#include "husk/limits.h"
#include "husk/shim_protocol.h"
#include "loop/loop.h"
#include "shim/shim.h"

#if defined(__SANITIZE_ADDRESS__)
#define MEMORY_LIMIT 0 /* the sanitizer's shadow memory is far larger */

/* The search for leaks needs /proc, which is out of reach here. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#else
#define MEMORY_LIMIT SHIM_MEMORY_BYTES
#endif

struct arguments {
    const char *sandbox;
    struct id id; /* the same */
    uint64_t uid;
    uint64_t log_level;
    uint64_t log_format;
};

static int parse_arguments(int argc, char **argv, struct arguments *ret)
{
    if (argc != 5)
        return -EINVAL;
    *ret = (struct arguments){.sandbox = argv[1]};
    if (id_parse(argv[1], &ret->id) < 0 || parse_u64(argv[2], 1, UINT32_MAX - 1, &ret->uid) < 0 ||
        parse_u64(argv[3], LOG_DEBUG, LOG_ERROR, &ret->log_level) < 0 ||
        parse_u64(argv[4], LOG_FORMAT_AUTO, LOG_FORMAT_JSON, &ret->log_format) < 0)
        return -EINVAL;
    return 0;
}

/* What must be read from the file system, before there is none any more. */
static int prepare_libraries(struct failure *why)
{
    if (sodium_init() < 0)
        return fail_plain(why, ENOSYS, "libsodium does not start");
    json_object_seed(0);
    /* One large answer must not leave large holes behind: fixed thresholds, few arenas. */
    (void)mallopt(M_MMAP_THRESHOLD, 256 * KIB);
    (void)mallopt(M_TRIM_THRESHOLD, 256 * KIB);
    (void)mallopt(M_ARENA_MAX, 2);
    return 0;
}

/* Into the sandbox's network and ipc namespaces, below its ipc directory, and without any privilege. */
static int leave_host(uid_t uid, struct failure *why)
{
    if (setns(SHIM_NAMESPACE_FD, CLONE_NEWNET | CLONE_NEWIPC) < 0)
        return fail(why, errno, "join the sandbox's namespaces");
    if (fchdir(SHIM_RUN_FD) < 0 || chroot(".") < 0)
        return fail(why, errno, "change the root directory");
    (void)umask(0077);
    struct confinement how = {
        .uid = uid,
        .filter_fd = SHIM_FILTER_FD,
        .status_fd = SHIM_STATUS_FD,
        .processes = MAX_SHIM_THREADS,
        .memory_bytes = MEMORY_LIMIT,
        .score_adjustment_fd = -1,
    };
    int r = confine(&how, why);
    if (r < 0)
        return r;
    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return fail(why, errno, "make the process undumpable");
    static const int used_up[] = {SHIM_RUN_FD, SHIM_STATUS_FD, SHIM_FILTER_FD, SHIM_NAMESPACE_FD};
    for (size_t i = 0; i < ARRAY_LENGTH(used_up); i++)
        (void)close_fd(used_up[i]);
    return 0;
}

static int run(const struct arguments *arguments, int null_fd, struct failure *why)
{
    struct loop *loop = loop_new();
    if (!loop)
        return fail(why, errno, "make an event loop");
    struct shim_setup setup = {
        .loop = loop,
        .sandbox = arguments->id,
        .listen_fd = SHIM_LISTEN_FD,
        .init_fd = SHIM_INIT_FD,
        .fork_fd = SHIM_FORK_FD,
        .report_fd = SHIM_REPORT_FD,
        .home_fd = SHIM_HOME_FD,
        .oom_fd = SHIM_OOM_FD,
        .null_fd = null_fd,
    };
    struct shim *shim = shim_new(&setup, why);
    int r = shim ? loop_run(loop) : -why->code;
    if (shim && r < 0)
        (void)fail(why, r, "wait for events");
    shim_free(shim);
    loop_free(loop);
    return r;
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    if (parse_arguments(argc, argv, &arguments) < 0) {
        (void)fprintf(stderr, "husk-shim is started by the keeper of huskd, not by hand.\n");
        return EXIT_FAILURE;
    }
    log_setup("shim", (enum log_level)arguments.log_level, (enum log_format)arguments.log_format);
    log_context("sandbox", arguments.sandbox);
    (void)signal(SIGPIPE, SIG_IGN);
    json_memory_setup();

    struct failure why;
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int r = null_fd < 0 ? fail(&why, errno, "open /dev/null") : 0;
    if (r == 0)
        r = prepare_libraries(&why);
    if (r == 0)
        r = leave_host((uid_t)arguments.uid, &why);
    if (r == 0)
        r = run(&arguments, null_fd, &why);
    if (r < 0)
        log_event(LOG_ERROR, "the shim ends", "reason", why.text, NULL);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
