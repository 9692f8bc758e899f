#include "base/fdio.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/attributes.h"

ssize_t read_some(int fd, void *data, size_t length)
{
    for (;;) {
        ssize_t n = read(fd, data, length);
        if (n >= 0)
            return n;
        if (errno != EINTR)
            return -errno;
    }
}

ssize_t read_at(int fd, void *data, size_t length, uint64_t position)
{
    ssize_t n;
    do {
        n = pread(fd, data, length, (off_t)position);
    } while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

ssize_t write_some(int fd, const void *data, size_t length)
{
    for (;;) {
        ssize_t n = write(fd, data, length);
        if (n >= 0)
            return n;
        if (errno != EINTR)
            return -errno;
    }
}

int write_all(int fd, const void *data, size_t length)
{
    const char *next = data;
    while (length > 0) {
        ssize_t n = write_some(fd, next, length);
        if (n <= 0)
            return n < 0 ? (int)n : -EIO;
        next += n;
        length -= (size_t)n;
    }
    return 0;
}

int read_exactly(int fd, void *data, size_t length)
{
    char *next = data;
    while (length > 0) {
        ssize_t n = read_some(fd, next, length);
        if (n <= 0)
            return n < 0 ? (int)n : -EPIPE;
        next += n;
        length -= (size_t)n;
    }
    return 0;
}

ssize_t read_file_at(int dirfd, const char *path, char *text, size_t size)
{
    _cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t length = 0;
    while (length < size) {
        ssize_t n = read_some(fd, text + length, size - length);
        if (n < 0)
            return n;
        if (n == 0) {
            text[length] = '\0';
            return (ssize_t)length;
        }
        length += (size_t)n;
    }
    return -EFBIG;
}

int write_file_at(int dirfd, const char *path, const char *text)
{
    _cleanup_close_ int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = write_some(fd, text, strlen(text));
    if (n < 0)
        return (int)n;
    return (size_t)n == strlen(text) ? 0 : -EIO;
}

static int change_flag(int fd, int get, int set, int flag, bool on)
{
    int flags = fcntl(fd, get);
    if (flags < 0)
        return -errno;
    flags = on ? flags | flag : flags & ~flag;
    return fcntl(fd, set, flags) < 0 ? -errno : 0;
}

int set_nonblocking(int fd, bool on)
{
    return change_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

int set_cloexec(int fd, bool on)
{
    return change_flag(fd, F_GETFD, F_SETFD, FD_CLOEXEC, on);
}

void cloexec_from(int first)
{
    (void)close_range((unsigned)first, ~0U, CLOSE_RANGE_CLOEXEC);
}

static int compare_descriptors(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

void close_others(int first, int *kept, size_t count)
{
    if (count > 0)
        qsort(kept, count, sizeof kept[0], compare_descriptors);
    for (size_t i = 0; i < count; i++) {
        if (kept[i] < first)
            continue;
        if (kept[i] > first)
            (void)close_range((unsigned)first, (unsigned)kept[i] - 1, 0);
        first = kept[i] + 1;
    }
    (void)close_range((unsigned)first, ~0U, 0);
}

void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
    return -1;
}

int send_with_fds(int socket, const void *data, size_t length, const int *fds, size_t count)
{
    if (count > FDIO_MAX_FDS)
        return -EINVAL;
    union {
        char bytes[CMSG_SPACE(sizeof(int) * FDIO_MAX_FDS)];
        struct cmsghdr aligned;
    } control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(header), fds, sizeof(int) * count);
    }
    for (;;) {
        ssize_t n = sendmsg(socket, &message, MSG_NOSIGNAL);
        if (n >= 0)
            return (size_t)n == length ? 0 : -EIO;
        if (errno != EINTR)
            return -errno;
    }
}

/* Keep as many descriptors as there is room for, close the rest. */
static void collect_fds(struct msghdr *message, int *fds, size_t room, size_t *count)
{
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        size_t received = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < received; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
            if (*count < room)
                fds[(*count)++] = fd;
            else
                close(fd);
        }
    }
}

ssize_t receive_with_fds(int socket, void *data, size_t length, int *fds, size_t *count)
{
    size_t room = count ? *count : 0;
    size_t received = 0;
    if (count)
        *count = 0;
    union {
        char bytes[CMSG_SPACE(sizeof(int) * FDIO_MAX_FDS)];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {.iov_base = data, .iov_len = length};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t n;
    do {
        n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    collect_fds(&message, fds, room, &received);
    bool cut = message.msg_flags & (MSG_TRUNC | MSG_CTRUNC);
    /* An empty datagram looks like the end, where nobody expects descriptors. */
    if (cut || n == 0) {
        for (size_t i = 0; i < received; i++)
            close(fds[i]);
        received = 0;
    }
    if (cut)
        return -EMSGSIZE;
    if (count)
        *count = received;
    return n;
}

static int unix_address(const char *path, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address->sun_path)
        return -ENAMETOOLONG;
    memcpy(address->sun_path, path, strlen(path) + 1);
    return 0;
}

static int unix_open(const char *path, int type, bool listening)
{
    struct sockaddr_un address;
    int r = unix_address(path, &address);
    if (r < 0)
        return r;
    _cleanup_close_ int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (listening)
        r = bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, SOMAXCONN) < 0;
    else
        r = TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&address, sizeof address)) < 0;
    if (r)
        return -errno;
    return TAKE_DESCRIPTOR(fd);
}

int unix_listen(const char *path, int type)
{
    return unix_open(path, type, true);
}

int unix_connect(const char *path, int type)
{
    return unix_open(path, type, false);
}
