/* huskd ↔ porter: frames (base/frame.h) over one stream socket. huskd sends one request; the porter answers with data and a last
 * word, and ends. When huskd closes the socket, the porter ends. What a porter sends is finished: huskd passes data on
 * without looking at it. */
#pragma once

#include <stdint.h>

#include "husk/limits.h"

enum porter_type {
    PORTER_REQUEST = 1, /* huskd → porter, once: struct porter_request, then the path */
    PORTER_BEGIN, /* ← struct porter_begin: data comes now. Only of jobs that have data, once */
    PORTER_DATA,  /* ← bytes for the client, at most PORTER_BLOCK_BYTES */
    PORTER_END,   /* ← struct porter_end: the last word. Without it the job failed */
};

enum porter_job {
    PORTER_LIST = 1, /* the folder, as JSON */
    PORTER_PACK,     /* the folder, as a tar */
    PORTER_UNPACK,   /* the archive into the folder `path` below /home/user; "" is that itself */
    PORTER_REMOVE,   /* what has the name `path` in the folder, with all that is in it */
};

enum {
    PORTER_ONE_LEVEL = 1,  /* of PORTER_LIST: no folders in folders, but the folders themselves */
    PORTER_WHOLE_HOME = 2, /* the folder is /home/user */
    PORTER_RESOURCES =
        4 /* of PORTER_LIST, of /home/user: regular files as resources of MCP; the request's path is the sandbox in
                            their addresses */
};

struct porter_request {
    uint32_t job;
    uint32_t flags;
    uint32_t
        path_bytes; /* of PORTER_LIST and PORTER_PACK: the folder's own path, for the names in the answer */
};

struct porter_begin {
    uint32_t incomplete; /* of PORTER_LIST: there is more than this */
};

enum {
    PORTER_TEXT_SIZE = 240
};

struct porter_end {
    int32_t status;   /* 0 or -errno, see below */
    uint32_t entries; /* unpacked, packed, removed */
    uint64_t bytes;
    char text[PORTER_TEXT_SIZE]; /* on failure: a sentence for the client, in UTF-8 */
};
/* -EBADMSG the archive is not good, -EEXIST something is in the way, -ENOSPC the disk is full, -ENOENT, -EACCES;
 * others: it could not be done. */

/* File descriptors the keeper gives a porter when it starts it. */
enum porter_descriptor {
    PORTER_SOCKET_FD = 3, /* to huskd */
    PORTER_FOLDER_FD,     /* O_PATH: the folder to work on */
    PORTER_HOME_FD,       /* O_PATH: /home/user; the porter makes it its root directory */
    PORTER_INCOMING_FD,   /* a folder on the same disk that the sandbox cannot see */
    PORTER_ARCHIVE_FD,    /* for PORTER_UNPACK, from KEEPER_MAKE_FILE; else /dev/null */
    PORTER_STATUS_FD,     /* /proc/self/status, for the self-check */
    PORTER_FILTER_FD,     /* memfd with the seccomp program */
    PORTER_NAMESPACE_FD,  /* pidfd of init: the porter joins its network and ipc namespaces */
};
