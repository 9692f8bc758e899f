/* Starting a kernel by forking: shim → keeper → zygote, SOCK_SEQPACKET datagrams. A shim asks over a socket that the keeper
 * knows to be its own; the keeper adds what the shim must not choose (which container, which cgroups) and passes the rest on
 * without looking at it. The zygote, and the process that it forked, answer the shim directly, over the socket that came with
 * the request. Whoever does not get an answer starts its kernel in the ordinary way, by init.
 *
 * From the forked process on everything is as hostile as the sandbox: what it reports concerns nobody but its own shim. */
#pragma once

#include <stdint.h>

#include "husk/limits.h"

enum {
    ZYGOTE_PROTOCOL_VERSION = 1,
    FORK_TEXT_SIZE = 240
};

/* Followed by `string_bytes` bytes of NUL-terminated strings: the connection file, then environment entries that come on top of
 * the image's. Descriptors: enum fork_descriptor. */
struct fork_request {
    uint32_t version;
    uint32_t string_bytes;
};

enum fork_descriptor {
    FORK_REPORT,                /* where to report */
    FORK_OUTPUT,                /* stdout and stderr */
    FORK_FROM_SHIM,             /* so many come from the shim; the keeper adds: */
    FORK_INIT = FORK_FROM_SHIM, /* pidfd of the container's init, whose namespaces to join */
    FORK_CGROUPS,               /* directories, as many as there are hierarchies */
    FORK_DESCRIPTORS = FORK_CGROUPS + 4
};

enum fork_report_type {
    FORK_STARTED = 1, /* by the zygote: there is a process; one descriptor, its pidfd */
    FORK_JOINED, /* by the process itself: it is in the container and confined; value = its pid there */
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
