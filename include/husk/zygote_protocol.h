/* Starting a kernel by forking, with SOCK_SEQPACKET datagrams.
 *
 * A request goes shim → keeper → zygote. It holds nothing but one end of a socket, the *report*, whose other end is the shim's; the
 * keeper adds which container and which cgroups it is about, which the shim must not choose. The zygote forks; the child joins the
 * container, confines itself, and says so in the report. Only then does it read its *order* there: what a shim writes is read by
 * nobody who has more rights than the sandbox.
 *
 * The first kernel of a container is asked for by the keeper itself, as soon as the namespaces exist: it is forked while the
 * container is being set up and its shim starts, and waits on a *leash* until it may join. The shim gets its end of the report when
 * it is started. If that is closed, because there is no zygote, or whenever it does not get an answer, it starts its kernel
 * in the ordinary way, by init.
 *
 * From the forked process on everything is as hostile as the sandbox: what it reports concerns nobody but its own shim. */
#pragma once

#include <stdint.h>

#include "husk/limits.h"

enum {
    ZYGOTE_PROTOCOL_VERSION = 2,
    FORK_TEXT_SIZE = 240
};

/* Descriptors: enum fork_descriptor. */
struct fork_request {
    uint32_t version;
    uint32_t on_leash; /* 0 or 1: the last descriptor is the leash. Always 0 from a shim */
};

enum fork_descriptor {
    FORK_REPORT,                /* the report */
    FORK_FROM_SHIM,             /* so many come from the shim; the keeper adds: */
    FORK_INIT = FORK_FROM_SHIM, /* pidfd of the container's init, whose namespaces to join */
    FORK_CGROUPS,               /* directories, as many as there are hierarchies */
    FORK_DESCRIPTORS = FORK_CGROUPS + 4 +
                       1 /* and the leash: a byte comes when the container is ready, or its end */
};

/* shim → child, over the report. Followed by `string_bytes` bytes of NUL-terminated strings: the connection file, then environment
 * entries that come on top of the image's. One descriptor: stdout and stderr. */
struct fork_order {
    uint32_t version;
    uint32_t string_bytes;
};

enum fork_report_type {
    FORK_STARTED = 1, /* by the zygote: there is a process; one descriptor, its pidfd */
    FORK_JOINED, /* by the process itself: it is in the container, confined, and waits for its order; value = its pid there */
    FORK_FAILED, /* by either: value = errno, text says what */
    FORK_EXITED, /* by the zygote: value = wait status */
};

struct fork_report {
    uint32_t type;
    int32_t value;
    char text[FORK_TEXT_SIZE];
};

/* What the keeper gives the zygote; it says once that it is ready, with a datagram of one byte. */
enum zygote_descriptor {
    ZYGOTE_SOCKET_FD = 3, /* to the keeper; its end is the zygote's end */
    ZYGOTE_LIBRARY_FD,    /* the C part, husk-zygote.so */
    ZYGOTE_FILTER_FD,     /* memfd with the seccomp program */
};
