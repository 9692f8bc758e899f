/* A folder of this machine as a tar, made while it is sent: pack_read() is a husk_source.
 *
 *     struct pack *pack;
 *     if (pack_new(&(struct pack_order){.folder = "project", .name = "project"}, &pack, &why) == 0)
 *         r = husk_upload_from(husk, sandbox, pack_read, pack, 0, "", true, &error);
 *     if (r < 0 && pack_failure(pack)) … that is why: a file of this machine could not be read
 *
 * Packed are files, folders and links that stay below the folder. Other links, and pipes, sockets and devices, are left out and counted;
 * what cannot be read is a failure, so that nobody believes it is there. The folder is opened once; then all is found by descriptors (walk.h), so
 * that nobody who changes it meanwhile can lead out of it. In memory are a block, and names. One thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"

struct pack;

struct pack_order {
    const char *folder; /* of this machine */
    const char *
        name; /* in front of all names in the archive: "project" gives "project/main.py"; NULL or "": nothing is */
    const char *const *
        excludes; /* fnmatch() patterns; left out is what has such a name, or such a path below the folder ("build", "*.pyc", "docs/old") */
    size_t exclude_count;
};

struct pack_counts {
    uint64_t total_bytes; /* in all files, as they were when pack_new() looked */
    uint64_t bytes;       /* packed so far */
    uint64_t entries;     /* packed so far */
    uint64_t left_out;    /* links that lead out, pipes, sockets, devices; not what was excluded */
    char first_left_out[256]; /* "": none */
};

/* Looks at the whole folder once, for the sums. The order is copied. -ENOENT, -ENOTDIR, -EACCES, …; -E2BIG: more entries than the service
 * takes (MAX_UNPACKED_ENTRIES). */
int pack_new(const struct pack_order *order, struct pack **ret, struct failure *why);
struct pack *pack_free(struct pack *pack); /* NULL ok, returns NULL */

/* The next bytes of the archive; 0: that was all; negative: see pack_failure(). `user` is the pack. */
ptrdiff_t pack_read(void *data, size_t room, void *user);
/* Why pack_read() gave up; NULL: it did not. */
const char *pack_failure(const struct pack *pack);
const struct pack_counts *pack_counts(const struct pack *pack);
