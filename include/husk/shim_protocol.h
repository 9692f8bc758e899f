/* huskd ↔ shim: frames (base/frame.h) over one stream socket per sandbox. Payloads are JSON text
 * unless said otherwise. The newest connection wins: when huskd comes back after a crash, the shim
 * drops the old one. When huskd goes away nothing stops; answers of executions whose connection is
 * gone are dropped.
 *
 * huskd never parses what came from a kernel: SHIM_RESULT carries the finished body of the HTTP
 * answer, SHIM_STREAM finished bytes of an event stream. The shim sends no more of those than huskd
 * has given credit for, which is STREAM_WINDOW_BYTES at first: so a client that does not read costs
 * huskd a bounded amount, and what to do about it is decided where the output comes from. */
#pragma once

#include <stdint.h>

enum shim_type {
    /* huskd → shim */
    SHIM_HELLO = 1, /* empty. ← SHIM_STATUS */
    SHIM_START, /* {"env": {…}, "link_seconds": n, "record": {…}}: start the first kernel. Once.
                   "link_seconds" is how long links to files work that the shim signs with the
                   record's "link_key". ← SHIM_STATUS when ready, or SHIM_DEAD */
    SHIM_RECORD, /* {…}: replaces huskd's note about this sandbox, which the shim keeps and gives
                     back in SHIM_STATUS */
    SHIM_EXECUTE, /* tag; {"code": "…", "timeout_ms": n} and, if wanted: "env": {…}, "colors": true,
                     "auto_install": true,
                     "stdin": ["line", …] | "ask", "stream": "sse" | "ndjson", "detach":
                     "<execution id>". ← SHIM_RESULT or SHIM_REJECTED; with stream, SHIM_STREAM before
                     that; with detach, SHIM_DONE at once, the result is kept for SHIM_FETCH.
                     "mcp": {"sandbox": "<id>", "note": "…", "links": bool, "progress": bool, "small": bool}: SHIM_RESULT has the
                     members of an MCP tool's result instead, without braces; with progress, each SHIM_STREAM
                     before it has members of a progress notification: some hundred bytes, once a second.
                     No line ends in either */
    SHIM_CANCEL, /* tag of an execution whose caller went away: forget it if queued, interrupt it if
                    running. The answer still comes (and is ignored); a stream ends at once */
    SHIM_CREDIT, /* tag of a stream; struct shim_credit: the client has taken so many bytes */
    SHIM_INPUT,  /* tag; {"value": "…" | null (end of input)}: for the input() that waits. ←
                    SHIM_DONE, or SHIM_REJECTED when none does */
    SHIM_FETCH, /* tag; {"execution_id": "…"} ← SHIM_RESULT: the result of a detached execution, or
                    what there is of it so far; SHIM_REJECTED when it is not known */
    SHIM_INTERRUPT, /* tag. ← SHIM_DONE when nothing runs any more (also when nothing ran) */
    SHIM_RESTART, /* tag. ← SHIM_DONE when the fresh kernel is ready; running and queued executions
                     end as interrupted */

    /* shim → huskd */
    SHIM_STATUS,   /* {"state": "new"|"starting"|"ready"|"busy"|"restarting"|"dead",
                      "execution_count": n, "queued": n, "commands": n, "kernel": {…}|null, "record": {…}|null}; sent
                      after HELLO and on every change of state; "record" only in the answer to HELLO
                    */
    SHIM_RESULT,   /* tag; struct shim_result_head, then the JSON object of the answer (API.md
                      "Running code") */
    SHIM_STREAM,   /* tag; bytes for the client, in the order they come */
    SHIM_REJECTED, /* tag; {"code": "queue_full"|"not_running"…, "detail": "sentence"}: it did not
                      run */
    SHIM_DONE,     /* tag; {"status": 0|-errno, "detail": "…"} */
    SHIM_DEAD,     /* {"detail": "sentence"}: no kernel can be had any more; the sandbox should be
                      removed */

    /* huskd → shim, what a prompt asks */
    SHIM_ASK =
        48, /* tag; {"kind": enum question_kind, "code": "…"} and, for the first two, "cursor": n
                      (in code points); for inspect "detail": 0|1, "colors": bool. ← SHIM_RESULT, or SHIM_REJECTED: the
                      sandbox is busy, or the kernel had no answer. SHIM_CANCEL as for SHIM_EXECUTE */

    /* huskd → shim, commands */
    SHIM_COMMAND =
        64, /* tag; {"id": "<command id>", "timeout_ms": n, "command": "text" | ["argument", …]} or instead of that
                            "commands": [several of them]; and, if wanted: "cwd", "env": {…}, "stdin": "text", "stream", "mcp"
                            as for SHIM_EXECUTE, "detach": true. ← as SHIM_EXECUTE; with detach SHIM_RESULT at once, with
                            {"command_id", "pid"} */
    SHIM_COMMAND_LIST, /* tag. ← SHIM_RESULT: {"commands": […]} */
    SHIM_COMMAND_FETCH, /* tag; {"command": "<command id>" | "<pid>"} ← SHIM_RESULT or SHIM_REJECTED */
    SHIM_COMMAND_KILL, /* tag; the same. ← SHIM_DONE when it has ended, or SHIM_REJECTED */

    /* Packages. huskd asks, SHIM_RESULT answers; what was installed comes from the sandbox and is checked again by huskd. */
    SHIM_PACKAGES = 80, /* tag; empty. ← {"packages": [{"name", "version"}]}; null: nobody knows */
    SHIM_INSTALL, /* tag; {"wheels": ["<sha256>/<file>"], "timeout_ms": n}: of /opt/husk/wheels. ← {"code": n, "output":
                      "…", "restart": bool}; one at a time */
    SHIM_SAY,     /* tag of SHIM_WANTED: lines for it, as of husk/package_protocol.h */
    SHIM_SAID,    /* the same, and the last of them */

    /* shim → huskd */
    SHIM_WANTED, /* tag, the shim's own; {"requirements": ["…"], "upgrade": bool, "pre": bool, "no_deps": bool}: a pip in
                    the sandbox wants these. ← SHIM_SAY, SHIM_SAID */
    SHIM_UNWANTED, /* tag: it went away */
};

/* In front of the JSON of SHIM_RESULT, for huskd's log line and counters. */
struct shim_result_head {
    uint32_t status; /* enum execution_status */
    uint32_t state_lost;
    uint64_t duration_ms;
};

/* Of SHIM_CREDIT. */
struct shim_credit {
    uint32_t bytes;
};

enum question_kind { /* of SHIM_ASK */
    QUESTION_COMPLETE,
    QUESTION_INSPECT,
    QUESTION_IS_COMPLETE,
};

enum execution_status {
    EXECUTION_OK,
    EXECUTION_ERROR,
    EXECUTION_TIMEOUT,
    EXECUTION_INTERRUPTED,
    EXECUTION_DIED,
    EXECUTION_QUEUED, /* SHIM_FETCH: not over yet */
    EXECUTION_RUNNING,
};

/* File descriptors the keeper gives a shim when it starts it. */
enum shim_descriptor {
    SHIM_LISTEN_FD = 3, /* stream socket, listening: huskd connects here */
    SHIM_INIT_FD, /* seqpacket socket to the container's init; its end is the container's end */
    SHIM_FORK_FD, /* seqpacket socket to the keeper: asking for kernels (husk/zygote_protocol.h) */
    SHIM_REPORT_FD, /* report of the first kernel, which the keeper has asked for already */
    SHIM_RUN_FD,    /* directory of the ipc sockets: the shim makes it its root directory. In the
                     container: /run/husk */
    SHIM_HOME_FD,   /* directory of the sandbox's files: in the container /home/user. Stays open */
    SHIM_OOM_FD, /* memory.events or memory.oom_control of the sandbox, for reading; /dev/null with
                     --no-limits */
    SHIM_STATUS_FD,    /* /proc/self/status of the shim, opened before it changes its root, for the
                          self-check */
    SHIM_FILTER_FD,    /* memfd with the seccomp program */
    SHIM_NAMESPACE_FD, /* pidfd of init: the shim joins its network and ipc namespaces */
};
