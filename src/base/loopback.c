#include "base/loopback.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

/* A name may begin with the number, too. */
bool is_loopback(const char *host)
{
    struct in_addr address;
    return !strcasecmp(host, "localhost") || !strcmp(host, "[::1]") ||
           (starts_with(host, "127.") && inet_pton(AF_INET, host, &address) == 1);
}
