/* shim ↔ init (pid 1 of the container): SOCK_SEQPACKET datagrams, a fixed head, then strings.
 * The shim starts processes and signals them; init reports their exits. Each ends when the other
 * does: a sandbox without its shim is of no use to anybody. What comes from init is treated as
 * coming from the sandbox. */
#pragma once

#include <stdint.h>

#include "husk/limits.h"

enum {
    INIT_PROTOCOL_VERSION = 2,
    INIT_SOCKET_FD = 3
};

enum init_type {
    /* shim → init */
    INIT_START =
        1, /* tag, flags; strings: with INIT_IN the working directory, argc times argv, then environment
                       entries that come on top of the image's. Three descriptors: stdin, stdout, stderr. The
                       process gets its own session; cwd /home/user, or relative to that; argv[0] is looked for in
                       PATH. ← INIT_STARTED with a pidfd (SCM_RIGHTS), or INIT_FAILED; later INIT_EXITED. When the
                       process is there but cannot execute the program it is the process that sends INIT_FAILED,
                       which may come before INIT_STARTED, and INIT_EXITED follows */
    INIT_SIGNAL, /* tag of a started process, value = signal: to its process group; SIGKILL to its session */
    INIT_ADOPT, /* tag, value = pid of a process that init did not start, which INIT_SIGNAL is to know by
                   this tag; one at a time. Its end is not reported */
    INIT_KILL_ALL, /* SIGKILL to every process of the container but init */
    INIT_KILL_OTHERS, /* the same, but for the sessions of processes that were started with INIT_APART. If these
                         fork meanwhile everybody is stopped for a moment, with SIGSTOP and SIGCONT. If that does not
                         hold them, as INIT_KILL_ALL */
    INIT_FORGET, /* tag of a process with INIT_APART: it is of no more interest. Until then INIT_SIGNAL reaches what is
                    left of its group after its own end */

    /* init → shim */
    INIT_READY = 32, /* once, at start */
    INIT_STARTED,    /* tag, value = pid inside the container; one descriptor: its pidfd */
    INIT_FAILED,     /* tag, value = errno, flags = enum init_step: it could not be started */
    INIT_EXITED,     /* tag, value = wait status as of waitpid(2) */
};

enum init_flag { /* of INIT_START */
    INIT_IN = 1,
    INIT_APART = 2,
};

enum init_step { /* of INIT_FAILED: what did not work */
    INIT_STEP_FORK,
    INIT_STEP_DIRECTORY,
    INIT_STEP_EXECUTE,
};

struct init_message {
    uint32_t version;
    uint32_t type;
    uint64_t tag;
    int32_t value;
    uint32_t argument_count; /* INIT_START: how many of the strings are argv */
    uint32_t string_bytes;   /* bytes of NUL-terminated strings that follow */
    uint32_t flags;
};

enum {
    INIT_DATAGRAM_BYTES = sizeof(struct init_message) + MAX_INIT_STRINGS_BYTES
};
