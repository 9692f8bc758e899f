/* `husk mcp`: an MCP server on standard input and output, for editors that can only start commands. All it does is to carry messages to a
 * huskd that runs, and answers back; tools, sandboxes and sessions are huskd's.
 *
 *     the editor ──▶ stdin ──▶ lines ──▶ bridge_take() ──▶ call ──▶ transfer ──▶ POST /mcp ──▶ huskd
 *                ◀── stdout ◀─────────── one line each ◀── JSON, or events, the answer last ◀──
 *
 * One thread, one loop (mcp.c), nothing blocks: each message is an HTTP request of its own, so calls run beside each other, and answers
 * come back in the order in which they are ready. Only lines.h writes to stdout, whole lines; everything else is said on stderr.
 *
 * Two eras, told apart message by message (message.h):
 *   modern   Nothing is remembered. Headers are made from the body. `notifications/cancelled` closes the connection, which is what
 *            cancels a call over HTTP.
 *   legacy   `initialize` begins a session (session.h), which everything later belongs to; a stream brings what huskd says by itself.
 *            `notifications/cancelled` is passed on, again and again until the call has ended: on a connection of its own it may have
 *            overtaken the call.
 *
 * A call: waiting ──▶ sent ──▶ (answered) ──▶ freed
 *           ▲          │
 *           └──────────┘ it was not heard: huskd is being started (service.h), or has forgotten the session and gets a new handshake
 * A call whose connection breaks after it was sent may have run: it is answered with an error, never sent again.
 * Calls that name a local file are carried out here (local.h), by calls and transfers of their own.
 *
 * Who dies: huskd: open calls get an error that says what to do, later ones work when it is back. The client, or its end of stdin:
 * what runs is cancelled, the session ended, and the exit status is 0. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "command/mcp_lines.h"
#include "command/mcp_message.h"
#include "command/mcp_roots.h"
#include "command/mcp_service.h"
#include "command/mcp_session.h"

struct local;
struct transfer;
struct web;

struct call {
    struct call *next, *previous;
    struct bridge *bridge;
    struct message message;
    bool waiting;              /* to be sent */
    struct transfer *transfer; /* NULL: not sent */
    struct local *local;       /* it is carried out here; NULL: by huskd */
    uint64_t session;          /* number of the session that it was sent in */
    unsigned losses;           /* how often it was not heard */
    bool answered;
    bool cancelled;     /* nobody waits for its answer */
    char *cancellation; /* legacy: what the client said, to be passed on */
    struct transfer *canceller;
    uint64_t cancel_ms; /* when to say it again */
    /* Not the client's but one of our own: the answer, an error too, goes here; stolen from nobody, borrowed. */
    void (*on_answer)(void *user, json_t *answer);
    void *user;
    json_t *answer;
};

struct bridge {
    struct web *web;
    struct lines lines;
    struct roots roots;
    struct mcp_session session;
    struct service service;
    struct call *first, *last; /* in the order in which they came */
    size_t call_count;
    size_t local_count; /* of them, with local files */
    uint64_t own_ids;   /* given to calls of our own */
};

/* A line of the client. */
void bridge_take(struct bridge *bridge, const char *text, size_t length);
/* A line that was too long to be read. */
void bridge_refuse_long(struct bridge *bridge);
/* What is due by now; lowers *wait_ms to when there is something again. */
void bridge_tick(struct bridge *bridge, uint64_t now, int *wait_ms);
/* All calls, those of our own too. */
void bridge_cancel_all(struct bridge *bridge);

/* --- for session, service, local -------------------------------------------------------------- */

/* What waits can be sent now … */
void bridge_release(struct bridge *bridge);
/* … or never: a sentence why. */
void bridge_fail_waiting(struct bridge *bridge, const char *text);
/* `deadline` 0: none. */
void bridge_lower(int *wait_ms, uint64_t now, uint64_t deadline);

/* A tool of huskd, called in the session or with the claims of `of`. `arguments` is stolen. Until `on_answer` it can be ended with call_free(). */
struct call *bridge_call_tool(const struct call *of, const char *tool, json_t *arguments,
                              void (*on_answer)(void *user, json_t *answer), void *user);
/* The answer to the client, or to ourselves; the call is freed. `line` is stolen; NULL: memory is out. */
void call_answer(struct call *call, char *line);
void call_fail(struct call *call, int code, const char *format, ...) _printf_(3, 4);
void call_free(struct call *call);
