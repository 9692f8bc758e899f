#include "huskd/file_opener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/attributes.h"
#include "base/fdio.h"
#include "base/memory.h"
#include "huskd/privileges.h"
#include "loop/loop.h"

enum {
    FIRST_DESCRIPTOR = 3
};

struct answer {
    int32_t status[OPENED_FILES]; /* 0: its descriptor comes along */
};

struct file_opener {
    int socket;
    struct source *source;
    file_opener_callback callback;
    void *user;
};

/* --- the child ---------------------------------------------------------------------------------- */

static int answer(int socket, const char *const paths[OPENED_FILES])
{
    struct answer message;
    int fds[OPENED_FILES];
    size_t count = 0;
    for (size_t i = 0; i < OPENED_FILES; i++) {
        /* Not blocking: a pipe in the place of a file would have us wait for ever. */
        int fd = *paths[i] ? open(paths[i], O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
        message.status[i] = fd >= 0 ? 0 : *paths[i] ? -errno : -ENOENT;
        if (fd >= 0)
            fds[count++] = fd;
    }
    int r = send_with_fds(socket, &message, sizeof message, fds, count);
    for (size_t i = 0; i < count; i++)
        close_fd(fds[i]);
    return r;
}

_Noreturn static void serve(int socket, const char *const paths[OPENED_FILES])
{
    struct failure why;
    char byte;
    int kept[] = {socket};
    (void)prctl(PR_SET_NAME, "husk-opener");
    close_others(FIRST_DESCRIPTOR, kept, 1);
    if (privileges_drop_capabilities(&why) < 0 || chdir("/") < 0)
        _exit(EXIT_FAILURE);
    while (read_some(socket, &byte, 1) == 1) {
        if (answer(socket, paths) < 0)
            break;
    }
    _exit(EXIT_SUCCESS);
}

/* --- huskd -------------------------------------------------------------------------------------- */

int file_opener_start(const char *const paths[OPENED_FILES], struct file_opener **ret,
                      struct failure *why)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return fail(why, errno, "socket to the process that opens files");
    pid_t pid = fork();
    if (pid == 0) {
        close_fd(pair[0]);
        serve(pair[1], paths);
    }
    int error = errno;
    close_fd(pair[1]);
    if (pid < 0) {
        close_fd(pair[0]);
        return fail(why, error, "start the process that opens files");
    }
    struct file_opener *opener = must_alloc(sizeof *opener);
    opener->socket = pair[0];
    *ret = opener;
    return 0;
}

struct file_opener *file_opener_free(struct file_opener *opener)
{
    if (!opener)
        return NULL;
    source_remove(opener->source);
    close_fd(opener->socket);
    free(opener);
    return NULL;
}

/* Give what came to `callback`. */
static int receive(const struct file_opener *opener, file_opener_callback callback, void *user)
{
    struct answer message;
    int received[OPENED_FILES], fds[OPENED_FILES];
    size_t count = OPENED_FILES, next = 0;
    ssize_t length = receive_with_fds(opener->socket, &message, sizeof message, received, &count);
    if (length == -EAGAIN)
        return 0;
    if (length != sizeof message) {
        callback(length < 0 ? (int)length : -EPIPE, NULL, user);
        return -EPIPE;
    }
    for (size_t i = 0; i < OPENED_FILES; i++)
        fds[i] = message.status[i] < 0 ? message.status[i] : next < count ? received[next++] : -EIO;
    callback(0, fds, user);
    for (size_t i = 0; i < count; i++)
        close_fd(received[i]);
    return 0;
}

int file_opener_ask_now(struct file_opener *opener, file_opener_callback callback, void *user)
{
    int r = write_all(opener->socket, "a", 1);
    return r < 0 ? r : receive(opener, callback, user);
}

static void readable(struct source *source _unused_, uint32_t events _unused_, void *user)
{
    struct file_opener *opener = user;
    if (receive(opener, opener->callback, opener->user) < 0)
        opener->source = source_remove(opener->source);
}

int file_opener_attach(struct file_opener *opener, struct loop *loop, file_opener_callback callback,
                       void *user)
{
    opener->callback = callback;
    opener->user = user;
    int r = set_nonblocking(opener->socket, true);
    if (r < 0)
        return r;
    opener->source = source_add(loop, opener->socket, EPOLLIN, readable, opener);
    return opener->source ? 0 : -errno;
}

/* A full socket means that it has not come to the questions before: it will answer those. */
void file_opener_ask(struct file_opener *opener)
{
    ssize_t r = write_some(opener->socket, "a", 1);
    if (r < 0 && r != -EAGAIN)
        opener->callback((int)r, NULL, opener->user);
}
