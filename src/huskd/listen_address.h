/* Where huskd listens. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/failure.h"

struct listen_address {
    struct sockaddr_storage socket_address;
    socklen_t length;
    bool loopback;
    char host[256]; /* as it was written, without brackets */
};

/* Is it written as it should be? 0 or -EINVAL with the end of a sentence: "must be …". */
int listen_address_check(const char *text, struct failure *why);
/* "127.0.0.1:8000", "[::1]:8000", "localhost:8000". Looks names up, so only at start. */
int listen_address_parse(const char *text, struct listen_address *ret, struct failure *why);
/* A listening socket, non-blocking and close-on-exec, or -errno with a sentence ("port in use"). */
int listen_address_open(const struct listen_address *address, struct failure *why);
/* The address the socket really has (port 0 chooses one), as people and URLs write it:
 * "127.0.0.1:8000". */
enum {
    LISTEN_TEXT_SIZE = 80
};
int listen_address_format(int fd, char text[LISTEN_TEXT_SIZE]);
