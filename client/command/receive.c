#include "command/receive.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "command/defuse.h"
#include "command/exit_status.h"
#include "command/folder.h"
#include "command/progress.h"
#include "command/say.h"
#include "command/unpack.h"

DEFINE_CLEANUP(struct husk_file_list, husk_file_list_free);

/* Who reads the folder's path to standard output: a terminal gets it defused. */
struct sink {
    int fd;
    bool terminal, failed;
    struct defuse defuse;
};

static int on_bytes(const void *data, size_t length, void *user)
{
    struct sink *sink = user;
    int r;
    if (sink->terminal) {
        _cleanup_buffer_ struct buffer safe = {};
        defuse_text(&sink->defuse, data, length, &safe);
        r = write_all(sink->fd, safe.data, safe.length);
    } else {
        r = write_all(sink->fd, data, length);
    }
    sink->failed = r < 0;
    return r;
}

static int receive_into(struct session *session, const char *sandbox, const char *path,
                        struct sink *sink)
{
    struct progress progress;
    progress_begin(&progress, session->invocation, path);
    husk_on_progress(session->husk, progress_bytes, &progress);
    int r = husk_download_to(session->husk, sandbox, path, on_bytes, sink, &session->error);
    husk_on_progress(session->husk, NULL, NULL);
    progress_end(&progress);
    if (r == 0)
        return EXIT_GOOD;
    if (sink->failed) {
        say("What came cannot be written.");
        return EXIT_LOCAL;
    }
    return session_failed(session);
}

static int receive_file(struct session *session, const char *sandbox, const char *path,
                        const char *local)
{
    struct progress progress;
    progress_begin(&progress, session->invocation, path);
    husk_on_progress(session->husk, progress_bytes, &progress);
    int r = husk_download_file(session->husk, sandbox, path, local, &session->error);
    husk_on_progress(session->husk, NULL, NULL);
    progress_end(&progress);
    if (r < 0)
        return session_failed(session);
    return session_success(session, "path", path, "local", local, NULL);
}

/* The tar waits in a file without a name until it is complete: a download that breaks off leaves nothing. */
static int nameless_file(int folder)
{
    int fd = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return fd < 0 ? -errno : fd;
    char name[] = ".husk-get-XXXXXX";
    _cleanup_close_ int before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (before < 0 || fchdir(folder) < 0)
        return -errno;
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0)
        (void)unlink(name);
    int code = errno;
    return fchdir(before) < 0 || fd < 0 ? -code : fd;
}

static int receive_folder(struct session *session, const char *sandbox, const char *path,
                          const char *local)
{
    struct unpack_counts counts = {};
    struct failure why;
    _cleanup_close_ int folder = folder_open(local, true);
    _cleanup_close_ int archive = folder < 0 ? folder : nameless_file(folder);
    if (archive < 0) {
        say("The folder '%s' cannot be used: %s", local, strerror(-archive));
        return EXIT_LOCAL;
    }
    struct sink sink = {.fd = archive};
    int status = receive_into(session, sandbox, path, &sink);
    if (status != EXIT_GOOD)
        return status;
    /* The archive of a folder begins with its name, that of all there is does not. */
    _cleanup_free_ char *name = folder_last_name(path);
    if (unpack_tar(archive, folder, *name ? 1 : 0, &counts, &why) < 0) {
        say("%s", why.text);
        return EXIT_LOCAL;
    }
    if (counts.left_out > 0 && !session->invocation->quiet)
        say("left out %" PRIu64 " that could do harm here: links that lead elsewhere, or worse",
            counts.left_out);
    return session_success(session, "path", path, "local", local, NULL);
}

/* 1: a folder, 0: a file or nothing, negative: the error was filled. */
static int is_folder(struct session *session, const char *sandbox, const char *path)
{
    _cleanup_(husk_file_list_free_cleanup) struct husk_file_list *list = NULL;
    int r = husk_files(session->husk, sandbox, *path ? path : NULL, false, &list, &session->error);
    if (r < 0)
        return strcmp(session->error.code, "file_not_found") ? r : 0;
    return 1;
}

/* Where it goes. The home folder has no name of its own: it gets that of its sandbox. NULL: that is no name, either. */
static char *destination(const char *sandbox, const char *path, const struct receive_order *order)
{
    _cleanup_free_ char *name = folder_last_name(*path ? path : sandbox);
    const char *base = order->local;
    if (base && !order->into && !folder_is(base))
        return must_copy(base);
    if (!*name)
        return NULL;
    if (!base)
        return TAKE_POINTER(name);
    bool slash = *base && base[strlen(base) - 1] == '/';
    return must_format("%s%s%s", base, slash ? "" : "/", name);
}

static int use_folder(const char *path)
{
    _cleanup_close_ int folder = folder_open(path, true);
    if (folder < 0)
        say("The folder '%s' cannot be used: %s", path, strerror(-folder));
    return folder < 0 ? EXIT_LOCAL : EXIT_GOOD;
}

static bool is_home(const char *path)
{
    return !*path || !strcmp(path, ".") || !strcmp(path, "./") || !strcmp(path, "/home/user") ||
           !strcmp(path, "/home/user/");
}

int receive_path(struct session *session, const char *sandbox, const struct receive_order *order)
{
    const char *path = is_home(order->path) ? "" : order->path;
    if (order->local && !strcmp(order->local, "-")) {
        struct sink sink = {.fd = STDOUT_FILENO, .terminal = isatty(STDOUT_FILENO)};
        return receive_into(session, sandbox, path, &sink);
    }
    int folder = is_folder(session, sandbox, path);
    if (folder < 0)
        return session_failed(session);
    _cleanup_free_ char *local = destination(sandbox, path, order);
    if (!local) {
        say("'%s' has no name: say where to with --output.", order->path);
        return EXIT_USAGE;
    }
    if (folder)
        return receive_folder(session, sandbox, path, local);
    int status = order->into ? use_folder(order->local) : EXIT_GOOD;
    return status == EXIT_GOOD ? receive_file(session, sandbox, path, local) : status;
}
