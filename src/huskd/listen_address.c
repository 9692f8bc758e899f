#include "huskd/listen_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum {
    BACKLOG = 1024
};

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
        return ntohl(four->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)address;
    return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

/* Split "host:port" or "[host]:port" into two strings. */
static int split(const char *text, char host[256], char port[8], struct failure *why)
{
    const char *colon = strrchr(text, ':');
    const char *start = text;
    size_t length = colon ? (size_t)(colon - text) : 0;
    if (length > 2 && text[0] == '[' && colon[-1] == ']') {
        start++;
        length -= 2;
    } else if (length && (text[0] == '[' || memchr(text, ':', length))) {
        return fail_plain(
            why, EINVAL, "must have an IPv6 address in brackets, as [::1]:8000, not '%.60s'", text);
    }
    uint64_t number;
    if (length == 0 || length > 255 || parse_u64(colon + 1, 0, 65535, &number) < 0)
        return fail_plain(why, EINVAL, "must be address:port, as 127.0.0.1:8000, not '%.60s'",
                          text);
    (void)snprintf(host, 256, "%.*s", (int)length, start);
    (void)snprintf(port, 8, "%u", (unsigned)number);
    return 0;
}

int listen_address_check(const char *text, struct failure *why)
{
    char host[256], port[8];
    return split(text, host, port, why);
}

int listen_address_parse(const char *text, struct listen_address *ret, struct failure *why)
{
    char port[8];
    struct listen_address address = {0};
    int r = split(text, address.host, port, why);
    if (r < 0)
        return r;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    r = getaddrinfo(address.host, port, &hints, &found);
    if (r != 0)
        return fail_plain(why, EINVAL, "cannot listen on '%.60s': %s", address.host,
                          gai_strerror(r));
    memcpy(&address.socket_address, found->ai_addr, found->ai_addrlen);
    address.length = found->ai_addrlen;
    address.loopback = is_loopback(found->ai_addr);
    freeaddrinfo(found);
    *ret = address;
    return 0;
}

static int refuse(const struct listen_address *address, int error, struct failure *why)
{
    const struct sockaddr_in *four =
        (const struct sockaddr_in *)(const void *)&address->socket_address;
    unsigned port = ntohs(four->sin_port); /* at the same place in both families */
    if (error == EADDRINUSE)
        return fail_plain(
            why, error,
            "port %u on %.60s is in use. Stop the other program (ss -ltnp shows it) or "
            "choose another port with --listen %.60s:%u",
            port, address->host, address->host, port == 65535 ? 8000 : port + 1);
    if (error == EACCES)
        return fail_plain(why, error,
                          "no permission to listen on port %u: ports below 1024 need root", port);
    return fail(why, error, "listen on %.60s port %u", address->host, port);
}

int listen_address_open(const struct listen_address *address, struct failure *why)
{
    int on = 1;
    _cleanup_close_ int fd =
        socket(address->socket_address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fail(why, errno, "make a socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (const struct sockaddr *)&address->socket_address, address->length) < 0 ||
        listen(fd, BACKLOG) < 0)
        return refuse(address, errno, why);
    return TAKE_DESCRIPTOR(fd);
}

int listen_address_format(int fd, char text[LISTEN_TEXT_SIZE])
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    char host[64], port[8];
    if (getsockname(fd, (struct sockaddr *)&address, &length) < 0)
        return -errno;
    if (getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return -EINVAL;
    return format_text(text, LISTEN_TEXT_SIZE, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}
