/* huskd ↔ keeper: one fixed struct per SOCK_SEQPACKET datagram, over the socket `keeper.sock` in
 * the state directory. Only a question about a file is longer: its path follows
 * the struct. huskd asks, the keeper answers with the same tag; KEEPER_GONE comes unasked.
 * The keeper accepts one huskd at a time. When huskd goes away nothing happens to the sandboxes;
 * when the keeper goes away huskd connects again. */
#pragma once

#include <stdint.h>

#include "husk/limits.h"

enum {
    KEEPER_PROTOCOL_VERSION = 4,
    KEEPER_TEXT_SIZE = 240
};

enum keeper_type {
    KEEPER_HELLO = 1, /* → version check; ← status 0, text = HUSK_VERSION of the keeper */
    KEEPER_CREATE, /* id, limits → container with init and shim running; no kernel yet. ← status,
                      text on failure */
    KEEPER_REMOVE, /* id → ← when no process, mount, cgroup or socket of it is left; status 0 or
                      -ENOENT */
    KEEPER_USAGE, /* id, or all-zero for every sandbox → ← one message each (flags: KEEPER_MORE on
                     all but the last). No sandbox at all, or unknown id: one message with status
                     -ENOENT and without KEEPER_MORE */
    KEEPER_STOP, /* remove every sandbox, then end the keeper and the anchor. ← once every sandbox
                    is removed */
    KEEPER_GONE, /* ← id: this sandbox ended by itself (its init or shim died); everything of it is
                    removed */
    KEEPER_OPEN, /* id, a path below /home/user → ← status 0 and one descriptor: the regular file,
                    open for reading. -ENOENT also for an unknown id; -errno of open_file_beneath() */
    KEEPER_ADAPT, /* id, limits → a running sandbox gets other limits: all of them, or none. ← status,
                     text on failure; -EBUSY when it uses more than they allow. flags:
                     KEEPER_UNCHANGED on a failure that left it as it was; without it nobody
                     knows its limits any more */
    KEEPER_MAKE_FILE, /* id → ← status 0 and one descriptor: a new regular file on the sandbox's disk
                         that has no name, its owner the sandbox, open for reading and writing. It
                         is gone when its last descriptor is closed */
    KEEPER_PLACE, /* id, a path below /home/user, one descriptor from KEEPER_MAKE_FILE → the file
                         gets this name, in place of what had it; missing folders are made. ← status
                         as of nameless_file_place(); flags: KEEPER_REPLACED */
    KEEPER_PORT,  /* id, the path of a folder below /home/user ("." is that itself), and maybe a
                         descriptor from KEEPER_MAKE_FILE, an archive → ← status 0 and one
                         descriptor: a stream socket to a porter (husk/porter_protocol.h) that has
                         this folder. -EBUSY: this sandbox has enough of them, -EUSERS: all have */
    KEEPER_FETCH, /* → ← status 0 and one descriptor: a socket to a process that fetches packages
                     (husk/fetch_protocol.h); text on failure */
};

enum {
    KEEPER_MORE = 1,
    KEEPER_UNCHANGED = 2,
    KEEPER_REPLACED = 4
};

struct sandbox_limits {
    uint64_t memory_bytes;
    uint64_t disk_bytes;
    uint32_t cpu_millis; /* thousandths of a core */
    uint32_t pids;
};

struct sandbox_usage {
    uint64_t memory_bytes; /* without what the disk holds */
    uint64_t cpu_micros;
    uint64_t disk_bytes;
    uint32_t pids;
    uint32_t out_of_memory_kills;
};

struct keeper_message {
    uint32_t version;
    uint32_t type;
    uint64_t tag;
    int32_t status; /* 0 or -errno, in answers */
    uint32_t flags;
    uint8_t id[16];
    struct sandbox_limits limits;
    struct sandbox_usage usage;
    uint32_t path_bytes; /* that follow: 1 to MAX_FILE_PATH_BYTES for KEEPER_OPEN,
                            KEEPER_PLACE and KEEPER_PORT, else 0 */
    uint32_t reserved;
    char text[KEEPER_TEXT_SIZE]; /* NUL-terminated by the reader */
};

/* A datagram from huskd: as long as `message` and the bytes of the path it announces, which hold no NUL. */
struct keeper_request {
    struct keeper_message message;
    char path[MAX_FILE_PATH_BYTES + 1]; /* NUL-terminated by the reader */
    int fd;                             /* came with it, not in it; -1: none */
};

/* The shim of a sandbox listens on <state>/shims/<id>, for huskd alone. */
#define KEEPER_SOCKET_NAME "keeper.sock"
#define SHIM_SOCKET_DIR    "shims"
/* huskd's alone (huskd/ledger.h); the anchor removes it with the others. */
#define LEDGER_NAME "pool"
