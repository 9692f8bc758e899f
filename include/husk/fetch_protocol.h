/* huskd ↔ husk-fetcher: frames (base/frame.h) over a socket that huskd makes and the keeper hands on unread. One job, then the
 * end. huskd closing its end is the end of the fetcher and of all it started. What the fetcher says comes in part from an index:
 * huskd believes names, versions and hashes only if they look like some. */
#pragma once

enum fetch_type {
    FETCH_JOB =
        1, /* huskd → fetcher: {"requirements": ["…"], "installed": ["name==version"], "upgrade": [names],
                      "pre": bool, "no_deps": bool, "index": "URL"|"", "extra_indexes": ["URL"],
                      "insecure_hosts": ["…"], "certificates": "PEM"|"", "environment": {"HTTPS_PROXY": "…"},
                      "max_bytes": n, "cache_bytes": n, "timeout_ms": n} */
    FETCH_PROGRESS, /* fetcher → huskd: text, a line without its end */
    FETCH_DONE, /* {"packages": [{"name", "version", "sha256", "file"}], "offline": bool}: all that the requirements
                       lead to; without hash and file what is installed already */
    FETCH_FAILED, /* text: why not, for whoever asked */
};

/* What the keeper gives it. */
enum fetch_descriptor {
    FETCH_SOCKET_FD = 3,
    FETCH_FILTER_FD, /* memfd with the seccomp program */
};

/* The id of P that it runs as, and that owns the cache; no sandbox has it. */
enum {
    FETCHER_ID = 2
};

/* In the cache directory: finished wheels, <sha256>/<file>, which sandboxes can read but not list; the resolver's notes; what is
 * being downloaded. */
#define CACHE_WHEELS "wheels"
#define CACHE_NOTES  "uv"
#define CACHE_PARTS  "parts"
