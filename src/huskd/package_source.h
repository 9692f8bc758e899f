/* Where packages come from: what the operator set in [packages], and where that is silent what this machine's pip and uv would
 * use: PIP_…, UV_…, proxies and certificates of the environment, then pip.conf. Read once, at the start, while huskd may still read
 * root's files. It holds secrets: they go to the fetcher and nowhere else. */
#pragma once

#include <jansson.h>

#include "base/failure.h"

struct config;
struct package_source;

int package_source_new(const struct config *config, struct package_source **ret,
                       struct failure *why);
struct package_source *package_source_free(
    struct package_source *source); /* NULL ok, returns NULL */

/* Add what the fetcher needs to know to its order (husk/fetch_protocol.h). */
void package_source_describe(const struct package_source *source, json_t *order);
/* Make a text fit to be shown: the secrets of the addresses in it become ****. In place. */
void package_source_redact(const struct package_source *source, char *text);

/* The directory of the cache, made if it is missing, as a folder of P's root. For the start as root; a user's is his own. */
int package_cache_make(const struct config *config, struct failure *why);
