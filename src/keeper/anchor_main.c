/* husk-anchor: makes the namespace P and keeps it.
 *
 * Two processes. The *warden* stays outside P: it makes the cgroup tree, writes the id maps, then
 * gives up every privilege but the right to remove files, and waits; when P has ended, however it
 * ended, it removes the cgroups and the state directory. It reads nothing from anybody. The
 * *anchor* is pid 1 of P: it starts the keeper and starts it again when it dies, holds the
 * descriptors the keeper would lose (descriptor_store.h), owns the socket huskd connects to, and
 * reaps. When it ends the kernel ends everything in P.
 *
 * To whoever started it, it says "ok" on the ready descriptor when the keeper serves, or a sentence
 * why not. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fdio.h"
#include "base/log.h"
#include "base/text.h"
#include "keeper/anchor_namespace.h"
#include "keeper/anchor_store.h"
#include "keeper/cgroup_tree.h"
#include "loop/loop.h"

enum {
    FIRST_RESTART_MS = 20,
    SLOWEST_RESTART_MS = 5000,
    CLIENT_ID = 1, /* root's huskd is this id of P; a user's huskd is P's root */
    PROGRAMS = 6,
};

struct options {
    const char *state;
    const char *image;
    const char *cache; /* "": none */
    unsigned id_base;
    int ready_fd;
    int log_level;
    int log_format;
    bool no_limits;
    bool by_root;
    char own_cgroup[PATH_MAX / 4]; /* a user's; empty for root */
};

struct anchor {
    const struct options *options;
    struct loop *loop;
    struct anchor_store *store;
    struct timer *restart;
    uint64_t restart_delay_ms;
    pid_t keeper;      /* 0: none */
    int keeper_socket; /* our end of the descriptor store, -1: none */
    struct source *keeper_source;
    int listen_fd;
    int programs[PROGRAMS]; /* keeper, shim, init, the zygote's library, porter, fetcher */
    bool announced;         /* the starter knows how it went */
    bool served;            /* a keeper has been ready: from now on it is started again */
};

static const char *const program_names[PROGRAMS] = {
    "husk-keeper", "husk-shim", "husk-init", "husk-zygote.so", "husk-porter", "husk-fetcher"};

static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option names[] = {{"state", required_argument, NULL, 's'},
                                          {"image", required_argument, NULL, 'i'},
                                          {"id-base", required_argument, NULL, 'b'},
                                          {"ready-fd", required_argument, NULL, 'r'},
                                          {"log-level", required_argument, NULL, 'l'},
                                          {"log-format", required_argument, NULL, 'f'},
                                          {"no-limits", no_argument, NULL, 'n'},
                                          {"cache", required_argument, NULL, 'c'},
                                          {0}};
    *options = (struct options){.ready_fd = -1, .cache = "", .by_root = geteuid() == 0};
    const struct {
        int letter;
        unsigned *value;
    } numbers[] = {{'b', &options->id_base},
                   {'r', (unsigned *)&options->ready_fd},
                   {'l', (unsigned *)&options->log_level},
                   {'f', (unsigned *)&options->log_format}};
    for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (c == 's')
            options->state = optarg;
        else if (c == 'i')
            options->image = optarg;
        else if (c == 'c')
            options->cache = optarg;
        else if (c == 'n')
            options->no_limits = true;
        for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
            uint64_t number;
            if (c != numbers[i].letter)
                continue;
            if (parse_u64(optarg, 0, INT32_MAX, &number) < 0)
                return -EINVAL;
            *numbers[i].value = (unsigned)number;
        }
        if (c == '?')
            return -EINVAL;
    }
    return options->state && options->image && options->ready_fd >= 0 ? 0 : -EINVAL;
}

static int open_programs(struct anchor *anchor, struct failure *why)
{
    char directory[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", directory, sizeof directory - 1);
    if (length < 0)
        return fail(why, errno, "read /proc/self/exe");
    directory[length] = '\0';
    *strrchr(directory, '/') = '\0';
    _cleanup_close_ int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < PROGRAMS; i++) {
        /* As descriptors, because P's root need not be able to walk to a clone below /root. */
        anchor->programs[i] = openat(fd, program_names[i], O_RDONLY | O_CLOEXEC);
        if (anchor->programs[i] < 0)
            return fail(why, errno, "open %s/%s", directory, program_names[i]);
    }
    return 0;
}

/* --- the anchor, inside P
 * --------------------------------------------------------------------------- */

static void announce(struct anchor *anchor, const char *text)
{
    if (anchor->announced)
        return;
    anchor->announced = true;
    (void)write_all(anchor->options->ready_fd, text, strlen(text));
    close(anchor->options->ready_fd);
}

static void exec_keeper(const struct anchor *anchor, int socket)
{
    const struct options *options = anchor->options;
    const int fds[] = {anchor->listen_fd,   socket,
                       anchor->programs[1], anchor->programs[2],
                       anchor->programs[3], anchor->programs[4],
                       anchor->programs[5]};
    int moved[ARRAY_LENGTH(fds)];
    /* Out of the way first: one may sit where another has to go. */
    for (size_t i = 0; i < ARRAY_LENGTH(fds); i++)
        moved[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, KEEPER_LISTEN_FD + 16);
    int program = fcntl(anchor->programs[0], F_DUPFD_CLOEXEC, KEEPER_LISTEN_FD + 16);
    for (size_t i = 0; i < ARRAY_LENGTH(fds); i++)
        (void)dup2(moved[i], KEEPER_LISTEN_FD + (int)i);
    cloexec_from(KEEPER_FETCHER_FD + 1);
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    char level[12], format[12], client[12];
    (void)snprintf(level, sizeof level, "%d", options->log_level);
    (void)snprintf(format, sizeof format, "%d", options->log_format);
    (void)snprintf(client, sizeof client, "%d", options->by_root ? CLIENT_ID : 0);
    const char *argv[] = {program_names[0],
                          options->state,
                          options->image,
                          options->no_limits ? "none"
                          : options->by_root ? "top"
                                             : options->own_cgroup,
                          client,
                          level,
                          format,
                          options->cache,
                          NULL};
    const char *environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    (void)fexecve(program, (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)environment);
    _exit(127);
}

static void keeper_ended(struct anchor *anchor)
{
    anchor->keeper_source = source_remove(anchor->keeper_source);
    anchor->keeper_socket = close_fd(anchor->keeper_socket);
    if (!anchor->served) {
        announce(anchor, "the keeper ended before it was ready; its last log lines say why\n");
        loop_stop(anchor->loop, 1);
        return;
    }
    if (timer_armed(anchor->restart))
        return;
    timer_arm(anchor->restart, anchor->restart_delay_ms);
    anchor->restart_delay_ms *= 2;
    if (anchor->restart_delay_ms > SLOWEST_RESTART_MS)
        anchor->restart_delay_ms = SLOWEST_RESTART_MS;
}

static void handle_stored(struct anchor *anchor, struct stored_message *message, int *fds,
                          size_t count)
{
    switch (message->type) {
    case STORED_PUT:
        anchor_store_put(anchor->store, message, fds, count);
        return;
    case STORED_DROP:
        anchor_store_drop(anchor->store, message->id);
        break;
    case STORED_READY:
        anchor->restart_delay_ms = FIRST_RESTART_MS;
        anchor->served = true;
        announce(anchor, "ok\n");
        break;
    case STORED_FAILED:
        if (!anchor->served)
            announce(anchor, message->text);
        else
            log_line(LOG_ERROR, "the keeper cannot serve: %s", message->text);
        break;
    case STORED_STOP:
        loop_stop(anchor->loop, 0);
        break;
    default:
        break;
    }
    for (size_t i = 0; i < count; i++)
        close_fd(fds[i]);
}

static void keeper_says(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct anchor *anchor = user;
    struct stored_message message;
    int fds[STORED_DESCRIPTORS];
    size_t count;
    int r = stored_receive(anchor->keeper_socket, &message, fds, &count);
    if (r == 1)
        handle_stored(anchor, &message, fds, count);
    else if (r != -EAGAIN)
        keeper_ended(anchor);
}

static void start_keeper(struct timer *timer _unused_, void *user)
{
    struct anchor *anchor = user;
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
        log_line(LOG_ERROR, "no socket for the keeper: %s", strerror(errno));
        keeper_ended(anchor);
        return;
    }
    anchor->keeper = fork();
    if (anchor->keeper == 0)
        exec_keeper(anchor, pair[1]);
    close(pair[1]);
    anchor->keeper_socket = pair[0];
    anchor->keeper_source = source_add(anchor->loop, pair[0], EPOLLIN, keeper_says, anchor);
    if (anchor->keeper < 0 || !anchor->keeper_source ||
        anchor_store_replay(anchor->store, pair[0]) < 0)
        keeper_ended(anchor);
}

static void on_signal(const struct signalfd_siginfo *info, void *user)
{
    struct anchor *anchor = user;
    if (info->ssi_signo == SIGTERM) {
        loop_stop(anchor->loop, 0);
        return;
    }
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid != anchor->keeper)
            continue;
        anchor->keeper = 0;
        if (anchor->served)
            log_event(LOG_WARNING, "the keeper ended; starting it again", "wait_status",
                      log_number(status), NULL);
    }
}

/* One that an earlier service left is fine; anything else that has the name is in the way. */
static int make_folder(const char *path, struct failure *why)
{
    struct stat status;
    if (mkdir(path, 0711) == 0)
        return 0;
    if (errno != EEXIST)
        return fail(why, errno, "make %s", path);
    if (lstat(path, &status) < 0 || !S_ISDIR(status.st_mode) || status.st_uid != geteuid())
        return fail_plain(why, EEXIST, "%s is in the way: remove it, or choose another --state",
                          path);
    return 0;
}

/* The socket is the anchor's, so that huskd's connections wait while a keeper is being replaced. */
static int make_state(struct anchor *anchor, struct failure *why)
{
    char path[PATH_MAX];
    const char *state = anchor->options->state;
    static const char *const directories[] = {SHIM_SOCKET_DIR, "mnt"};
    for (size_t i = 0; i < ARRAY_LENGTH(directories); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", state, directories[i]);
        int r = make_folder(path, why);
        if (r < 0)
            return r;
    }
    (void)snprintf(path, sizeof path, "%s/%s", state, KEEPER_SOCKET_NAME);
    (void)unlink(path);
    anchor->listen_fd = unix_listen(path, SOCK_SEQPACKET);
    if (anchor->listen_fd < 0)
        return fail(why, anchor->listen_fd, "listen on %s", path);
    uid_t client = anchor->options->by_root ? CLIENT_ID : 0;
    if (chown(path, client, client) < 0 || chmod(path, 0600) < 0)
        return fail(why, errno, "give %s to huskd", path);
    return 0;
}

static int run_anchor(struct anchor *anchor, struct failure *why)
{
    static const int signals[] = {SIGCHLD, SIGTERM, 0};
    int r = namespace_enter(why);
    if (r >= 0)
        r = make_state(anchor, why);
    if (r < 0)
        return r;
    anchor->loop = loop_new();
    if (!anchor->loop)
        return fail(why, errno, "make an event loop");
    anchor->store = anchor_store_new();
    anchor->restart = timer_add(anchor->loop, start_keeper, anchor);
    anchor->restart_delay_ms = FIRST_RESTART_MS;
    anchor->keeper_socket = -1;
    r = loop_signals(anchor->loop, signals, on_signal, anchor);
    if (r < 0)
        return fail(why, r, "watch signals");
    start_keeper(NULL, anchor);
    return loop_run(anchor->loop);
}

/* Pid 1 of P. `go` says when the ids are there. */
static int anchor_main(struct anchor *anchor, int go)
{
    struct failure why = {0};
    char byte;
    (void)prctl(PR_SET_NAME, "husk-anchor", 0, 0, 0);
    if (read_exactly(go, &byte, 1) < 0)
        return 1;
    close(go);
    int r = run_anchor(anchor, &why);
    if (r < 0)
        announce(anchor, why.text);
    return r != 0;
}

/* --- the warden, outside
 * ------------------------------------------------------------------------------ */

/* Removing what P's root made in the state directory is all it will still have to do. */
static void give_up_privileges(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    data[0].effective = data[0].permitted = 1u << CAP_DAC_OVERRIDE;
    if (geteuid() == 0)
        (void)syscall(SYS_capset, &header, data);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static void remove_state(const struct options *options)
{
    static const char *const files[] = {KEEPER_SOCKET_NAME, LEDGER_NAME, "lock", "anchor.lock"};
    static const char *const directories[] = {SHIM_SOCKET_DIR, "mnt"};
    /* P's root owns the directory and could have put a link anywhere in it. */
    int state = open(options->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (state < 0)
        return;
    int shims = openat(state, SHIM_SOCKET_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *entries = shims < 0 ? NULL : fdopendir(shims);
    for (struct dirent *entry; entries && (entry = readdir(entries));)
        (void)unlinkat(shims, entry->d_name, 0);
    if (entries)
        closedir(entries);
    for (size_t i = 0; i < ARRAY_LENGTH(directories); i++)
        (void)unlinkat(state, directories[i], AT_REMOVEDIR);
    for (size_t i = 0; i < ARRAY_LENGTH(files); i++)
        (void)unlinkat(state, files[i], 0);
    close(state);
    (void)rmdir(options->state);
}

static int prepare(struct options *options, struct cgroup_tree *tree, struct failure *why)
{
    uid_t owner = options->by_root ? options->id_base : geteuid();
    if (options->by_root &&
        (chown(options->state, owner, owner) < 0 || chmod(options->state, 0711) < 0))
        return fail(why, errno, "give %s to uid %u", options->state, owner);
    char lent[NAMESPACE_OWNER_SIZE];
    if (options->by_root && namespace_ids_are_lent("/etc/subuid", options->id_base, lent))
        log_line(
            LOG_WARNING,
            "the ids from %u on are subordinate ids of user %s, who can act as the owner of the "
            "sandboxes: choose another id_base",
            options->id_base, lent);
    if (options->no_limits)
        return 0;
    int r = options->by_root
                ? 0
                : cgroup_own_path(options->own_cgroup, sizeof options->own_cgroup, why);
    if (r >= 0)
        r = cgroup_tree_find(options->state, options->by_root ? NULL : options->own_cgroup, tree,
                             why);
    return r < 0 ? r : cgroup_tree_make(tree, owner, why);
}

/* Held until everything is removed: whoever stops Husk waits for it. */
static int lock_state(const struct options *options, struct failure *why)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/anchor.lock", options->state);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fail(why, errno, "open %s", path);
    /* Only huskd may read it, and so wait for it: anybody who can read a file can lock it. */
    gid_t client = options->by_root ? options->id_base + CLIENT_ID : getegid();
    if (fchown(fd, geteuid(), client) < 0 || fchmod(fd, 0640) < 0) {
        close(fd);
        return fail(why, errno, "give %s to huskd", path);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        close(fd);
        return fail_plain(why, EBUSY,
                          "%s is in use by another Husk that is just starting or ending",
                          options->state);
    }
    return fd;
}

static int watch_over(struct anchor *anchor, struct options *options, struct failure *why)
{
    struct cgroup_tree tree = {0};
    int go[2];
    int r = prepare(options, &tree, why);
    if (r >= 0 && pipe2(go, O_CLOEXEC) < 0)
        r = fail(why, errno, "make a pipe");
    pid_t child = r < 0 ? r : namespace_fork(options->by_root ? options->id_base : geteuid(), why);
    if (child == 0) {
        close(go[1]);
        _exit(anchor_main(anchor, go[0]));
    }
    r = child;
    if (r >= 0)
        r = namespace_write_maps(child, options->id_base, why);
    if (r >= 0)
        r = cgroup_tree_enter(&tree, child, why);
    if (r >= 0)
        r = write_all(go[1], "g", 1);
    if (r < 0) {
        announce(anchor, why->text);
        if (child > 0)
            (void)kill(child, SIGKILL);
    }
    close_fd(options->ready_fd);
    give_up_privileges();
    if (child > 0)
        (void)waitpid(child, NULL, 0);
    if (cgroup_tree_remove(&tree, why) < 0)
        log_line(LOG_WARNING, "%s", why->text);
    return r < 0 ? r : 0;
}

int main(int argc, char **argv)
{
    struct options options;
    struct failure why = {0};
    if (parse_options(argc, argv, &options) < 0) {
        (void)fprintf(stderr, "husk-anchor is started by huskd; start that instead.\n");
        return 2;
    }
    log_setup("anchor", (enum log_level)options.log_level, (enum log_format)options.log_format);
    struct anchor anchor = {.options = &options};
    cloexec_from(STDERR_FILENO + 1);
    (void)setsid();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    umask(022);
    raise_descriptor_limit();
    int lock = lock_state(&options, &why);
    int r = lock < 0 ? lock : open_programs(&anchor, &why);
    if (r < 0) {
        announce(&anchor, why.text);
        return 1;
    }
    r = watch_over(&anchor, &options, &why);
    remove_state(&options);
    return r < 0;
}
