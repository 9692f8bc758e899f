/* husk-porter <sandbox-id> <uid> <log level> <log format>: started by the keeper, with the descriptors of enum porter_descriptor, as
 * root of the keeper's user namespace and in the sandbox's cgroup. Does one job for huskd and ends. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/log.h"
#include "base/text.h"
#include "husk/confine.h"
#include "porter/list.h"
#include "porter/merge.h"
#include "porter/pack.h"
#include "porter/private_folder.h"
#include "porter/reply.h"
#include "porter/tree.h"
#include "porter/unpack.h"

#if defined(__SANITIZE_ADDRESS__)
#define MEMORY_LIMIT 0 /* the sanitizer's shadow memory is far larger */

/* The search for leaks needs /proc, which is out of reach here. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}
#else
#define MEMORY_LIMIT PORTER_MEMORY_BYTES
#endif

/* --- jobs --------------------------------------------------------------------------------------- */

static int unpack(struct reply *reply, const char *path, struct porter_end *end,
                  struct failure *why)
{
    struct private_folder private;
    int r = private_folder_make(&private, PORTER_INCOMING_FD, why);
    if (r == 0 && mkdirat(private.fd, "tree", 0700) < 0)
        r = fail(why, errno, "A private folder cannot be made");
    if (r == 0) {
        _cleanup_close_ int top = openat(private.fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        r = unpack_archive(reply, PORTER_ARCHIVE_FD, top, end, why);
        if (r == 0)
            r = merge_into(top, PORTER_HOME_FD, path, why);
    }
    private_folder_remove(&private);
    return r;
}

static bool remove_one(const struct tree_entry *entry, void *user)
{
    bool *removed = user;
    int flags = S_ISDIR(entry->status.st_mode) ? AT_REMOVEDIR : 0;
    *removed = unlinkat(entry->folder, entry->name, flags) == 0;
    return !*removed;
}

/* A disk without room for one more name has none for a private folder: something of what is to go makes room for it. */
static int make_private_folder(struct private_folder *private, const char *name,
                               struct failure *why)
{
    bool removed;
    int r;
    do {
        removed = false;
        r = private_folder_make(private, PORTER_INCOMING_FD, why);
        _cleanup_close_ int folder =
            r != -ENOSPC
                ? -1
                : openat(PORTER_FOLDER_FD, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct tree_walk walk = {.prefix = "", .visit = remove_one, .user = &removed};
        if (folder >= 0)
            (void)tree_walk(&walk, folder);
    } while (removed);
    return r;
}

/* A folder disappears in one step; what was in it is removed afterwards, also if nobody waits for that any more. */
static int remove_name(const char *name, struct porter_end *end, struct failure *why)
{
    struct private_folder private;
    struct stat status;
    end->entries = 1;
    if (fstatat(PORTER_FOLDER_FD, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return fail(why, errno, "There is no '%.150s'", name);
    if (!S_ISDIR(status.st_mode)) {
        int r = unlinkat(PORTER_FOLDER_FD, name, 0) < 0 ? errno : 0;
        return r ? fail(why, r, "'%.150s' cannot be removed", name) : 0;
    }
    int r = make_private_folder(&private, name, why);
    if (r == 0) {
        r = private_folder_take(&private, PORTER_FOLDER_FD, name);
        if (r < 0)
            (void)fail(why, r, "'%.150s' cannot be removed", name);
    }
    private_folder_remove(&private);
    return r;
}

static int do_job(struct reply *reply, const struct porter_request *request, const char *path,
                  struct porter_end *end, struct failure *why)
{
    switch (request->job) {
    case PORTER_LIST:
        return list_folder(reply, PORTER_FOLDER_FD, request, path, end, why);
    case PORTER_PACK:
        return pack_folder(reply, PORTER_FOLDER_FD, request, path, end, why);
    case PORTER_UNPACK:
        return unpack(reply, path, end, why);
    case PORTER_REMOVE:
        return remove_name(path, end, why);
    default:
        return fail_plain(why, ENOSYS, "There is no such job.");
    }
}

/* --- confinement -------------------------------------------------------------------------------- */

/* Into the sandbox's network and ipc namespaces, below its working directory, and without any privilege; and not longer than the
 * keeper, who would not know of it any more. */
static int leave_host(uid_t uid, struct failure *why)
{
    pid_t keeper = getppid();
    if (setns(PORTER_NAMESPACE_FD, CLONE_NEWNET | CLONE_NEWIPC) < 0)
        return fail(why, errno, "join the sandbox's namespaces");
    if (fchdir(PORTER_HOME_FD) < 0 || chroot(".") < 0)
        return fail(why, errno, "change the root directory");
    (void)umask(0022);
    struct confinement how = {
        .uid = uid,
        .filter_fd = PORTER_FILTER_FD,
        .status_fd = PORTER_STATUS_FD,
        .processes = 1,
        .memory_bytes = MEMORY_LIMIT,
        .score_adjustment_fd = -1,
    };
    int r = confine(&how, why);
    if (r < 0)
        return r;
    /* After confine(): another uid takes the signal back. */
    if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return fail(why, errno, "set up the process");
    if (getppid() != keeper)
        return fail_plain(why, ESRCH, "the keeper has ended");
    static const int used_up[] = {PORTER_STATUS_FD, PORTER_FILTER_FD, PORTER_NAMESPACE_FD};
    for (size_t i = 0; i < ARRAY_LENGTH(used_up); i++)
        (void)close_fd(used_up[i]);
    return 0;
}

static int run(struct failure *why)
{
    struct reply reply = {.fd = PORTER_SOCKET_FD};
    struct porter_request request;
    struct porter_end end = {0};
    char path[MAX_FILE_PATH_BYTES + 1];
    int r = reply_receive(&reply, &request, path);
    if (r == -EPIPE)
        return 0; /* nobody wants anything */
    if (r < 0)
        return fail(why, r, "read the request");
    end.status = do_job(&reply, &request, path, &end, why);
    reply_end(&reply, &end, why);
    return 0;
}

int main(int argc, char **argv)
{
    uint64_t uid, level, format;
    struct failure why = {0};
    if (argc != 5 || parse_u64(argv[2], 1, UINT32_MAX - 1, &uid) < 0 ||
        parse_u64(argv[3], LOG_DEBUG, LOG_ERROR, &level) < 0 ||
        parse_u64(argv[4], LOG_FORMAT_AUTO, LOG_FORMAT_JSON, &format) < 0) {
        (void)fprintf(stderr, "husk-porter is started by the keeper of huskd, not by hand.\n");
        return EXIT_FAILURE;
    }
    log_setup("porter", (enum log_level)level, (enum log_format)format);
    log_context("sandbox", argv[1]);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)alarm(PORTER_SECONDS);
    /* libarchive asks it what names are made of; it is not there any more afterwards. */
    (void)setlocale(LC_CTYPE, "C.UTF-8");
    int r = leave_host((uid_t)uid, &why);
    if (r == 0)
        r = run(&why);
    if (r < 0)
        log_event(LOG_ERROR, "the porter ends", "reason", why.text, NULL);
    return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
