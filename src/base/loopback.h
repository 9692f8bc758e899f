/* Is what an address names this machine itself? */
#pragma once

#include <stdbool.h>

/* The host of a URL, as libcurl gives it: "localhost", "[::1]", 127.x.y.z. By its text: nothing is resolved. */
bool is_loopback(const char *host);
