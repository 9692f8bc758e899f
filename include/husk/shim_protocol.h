/* huskd ↔ shim: frames (base/frame.h) over one stream socket per sandbox. Payloads are JSON text
 * unless said otherwise. The newest connection wins: when huskd comes back after a crash, the shim
 * drops the old one. When huskd goes away nothing stops; answers of executions whose connection is
 * gone are dropped.
 *
 * huskd never parses what came from a kernel: SHIM_RESULT carries the finished body of the HTTP
 * answer. */
#pragma once

#include <stdint.h>

enum shim_type {
    /* huskd → shim */
    SHIM_HELLO = 1, /* empty. ← SHIM_STATUS */
    SHIM_START, /* {"env": {…}, "record": {…}}: start the first kernel. Once. ← SHIM_STATUS when
                   ready, or SHIM_DEAD */
    SHIM_RECORD,  /* {…}: replaces huskd's note about this sandbox, which the shim keeps and gives
                     back in SHIM_STATUS */
    SHIM_EXECUTE, /* tag; {"code": "…", "timeout_ms": n}. ← SHIM_RESULT or SHIM_REJECTED */
    SHIM_CANCEL, /* tag of an execution whose caller went away: forget it if queued, interrupt it if
                    running. The answer still comes (and is ignored) */
    SHIM_INTERRUPT, /* tag. ← SHIM_DONE when nothing runs any more (also when nothing ran) */
    SHIM_RESTART, /* tag. ← SHIM_DONE when the fresh kernel is ready; running and queued executions
                     end as interrupted */

    /* shim → huskd */
    SHIM_STATUS,   /* {"state": "new"|"starting"|"ready"|"busy"|"restarting"|"dead",
                      "execution_count": n, "queued": n, "kernel": {…}|null, "record": {…}|null}; sent
                      after HELLO and on every change of state; "record" only in the answer to HELLO
                    */
    SHIM_RESULT,   /* tag; struct shim_result_head, then the JSON object of the answer (API.md
                      "Running code") */
    SHIM_REJECTED, /* tag; {"code": "queue_full"|"not_running"…, "detail": "sentence"}: it did not
                      run */
    SHIM_DONE,     /* tag; {"status": 0|-errno, "detail": "…"} */
    SHIM_DEAD,     /* {"detail": "sentence"}: no kernel can be had any more; the sandbox should be
                      removed */
};

/* In front of the JSON of SHIM_RESULT, for huskd's log line and counters. */
struct shim_result_head {
    uint32_t status; /* enum execution_status */
    uint32_t state_lost;
    uint64_t duration_ms;
};

enum execution_status {
    EXECUTION_OK,
    EXECUTION_ERROR,
    EXECUTION_TIMEOUT,
    EXECUTION_INTERRUPTED,
    EXECUTION_DIED,
};

/* File descriptors the keeper gives a shim when it starts it. */
enum shim_descriptor {
    SHIM_LISTEN_FD = 3, /* stream socket, listening: huskd connects here */
    SHIM_INIT_FD, /* seqpacket socket to the container's init; its end is the container's end */
    SHIM_RUN_FD,  /* directory of the ipc sockets: the shim makes it its root directory. In the
                     container: /run/husk */
    SHIM_OOM_FD,  /* memory.events or memory.oom_control of the sandbox, for reading; /dev/null with
                     --no-limits */
    SHIM_STATUS_FD,    /* /proc/self/status of the shim, opened before it changes its root, for the
                          self-check */
    SHIM_FILTER_FD,    /* memfd with the seccomp program */
    SHIM_NAMESPACE_FD, /* pidfd of init: the shim joins its network and ipc namespaces */
};
