/* Starting husk-fetcher: the one process that uses the network, for one job (husk/fetch_protocol.h), in mount, pid, ipc and uts
 * namespaces of its own. It ends with the keeper, or when the descriptor is closed. And the cache, which belongs to it. */
#pragma once

#include "base/failure.h"
#include "keeper/container.h"

/* Make the folders of the cache. -errno: there is no cache, and no packages can be fetched. */
int fetch_prepare(const char *cache, struct failure *why);
/* huskd's end of the socket to a new fetcher, or -errno. */
int fetch_start(const struct container_host *host, struct failure *why);
