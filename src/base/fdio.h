/* File descriptors: EINTR and short transfers are handled here and nowhere else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* All of it or -errno; -EPIPE/-EIO when the end comes early. Blocking descriptors only. */
int write_all(int fd, const void *data, size_t length);
int read_exactly(int fd, void *data, size_t length);
/* One read or write; bytes moved, 0 at the end, -EAGAIN when it would block, -errno. */
ssize_t read_some(int fd, void *data, size_t length);
ssize_t read_at(int fd, void *data, size_t length,
                uint64_t position); /* the descriptor's own position stays */
ssize_t write_some(int fd, const void *data, size_t length);

/* Whole small file into `text` (NUL-terminated, at most size-1 bytes: -EFBIG above). Returns the
 * length. */
ssize_t read_file_at(int dirfd, const char *path, char *text, size_t size);
int write_file_at(int dirfd, const char *path, const char *text); /* existing file, one write */

int set_nonblocking(int fd, bool on);
int set_cloexec(int fd, bool on);
/* Before an exec: of the descriptors from `first` on nothing stays open in the new program. */
void cloexec_from(int first);
/* After a fork: of the descriptors from `first` on only these stay open. Negative ones are none; the list is sorted here. */
void close_others(int first, int *kept, size_t count);
int close_fd(int fd); /* closes if >= 0; returns -1, so that `x = close_fd(x);` */

/* As many descriptors as the hard limit allows: a sandbox costs a few in each program. */
void raise_descriptor_limit(void);

/* One datagram (SOCK_SEQPACKET) with file descriptors. `fds` may be NULL with count 0. */
enum {
    FDIO_MAX_FDS = 8
};
int send_with_fds(int socket, const void *data, size_t length, const int *fds, size_t count);
/* Returns the bytes received, 0 at the end, -EAGAIN, -errno; -EMSGSIZE when it did not fit. *count
 * in: room in fds, out: received, all close-on-exec. Descriptors beyond the room are closed, and
 * all of them when the result is not positive. */
ssize_t receive_with_fds(int socket, void *data, size_t length, int *fds, size_t *count);

/* Unix socket at `path`, listening or connected. -ENAMETOOLONG above 107 bytes. type: SOCK_STREAM
 * or SOCK_SEQPACKET. Both are close-on-exec; nonblocking is up to the caller. */
int unix_listen(const char *path, int type);
int unix_connect(const char *path, int type);
