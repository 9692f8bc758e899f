/* How an answer tells of a file: an entry of "files" in API.md, with a link that works without the API key for a while. */
#pragma once

#include <jansson.h>

#include "base/failure.h"
#include "base/id.h"
#include "base/link.h"

struct changed_file;

struct file_links {
    struct id sandbox;
    struct link_key key;
    int64_t seconds; /* how long a link works */
};

/* From the payload of SHIM_START ("link_seconds", and "link_key" in "record"). 0, or -EINVAL with *ret untouched. */
int file_links_from_start(const json_t *start, struct id sandbox, struct file_links *ret,
                          struct failure *why);
/* {"path", "size", "type", "url", "change": "created" | "changed"}, a new reference; NULL when memory is out. The link counts
 * from now. */
json_t *file_links_entry(const struct file_links *links, const struct changed_file *file);
