/* One JSON-RPC request, from its arrival until its answer is given to whoever carries it to the client. A handler either
 * answers before it returns or calls call_wait() and answers later, exactly once.
 *
 *     received ─▶ handled ─▶ waiting ─▶ answered (freed)
 *                               ├──▶ cancelled: its `cancel` is called, nothing is answered (freed)
 *                               └──▶ abandoned: its client has left, and that is no reason to stop; the answer goes nowhere
 *
 * What it waits for is the handler's own. Owner: the list in struct mcp; loop thread. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attributes.h"
#include "base/buffer.h"
#include "base/id.h"
#include "mcp/era.h"
#include "mcp/rpc.h"

struct batch;
struct mcp;
struct mcp_call;
struct mcp_session;
struct problem;
struct sandbox;

/* What a transport is given to send. */
struct mcp_reply {
    unsigned status; /* of HTTP, where there is one */
    struct buffer *
        message; /* one JSON-RPC message without line ends; the bytes may be taken. NULL: cancelled, say nothing */
    const char *session_id; /* a session has begun: its id; NULL: none */
    enum rpc_code code;     /* of an error; 0: it is none */
    const char *fault;      /* its text */
};

/* Who carries answers to the client. */
struct mcp_outlet {
    void (*reply)(void *user, const struct mcp_reply *reply);
    /* Why an answer of so many bytes cannot be carried, a sentence: then the reply is an error with that. NULL: it can. */
    const char *(*refuses)(void *user, size_t length);
    /* A notification that belongs to the call, borrowed, without line ends. It may be dropped. NULL: cannot be sent. */
    void (*notify)(void *user, const char *text, size_t length);
    /* The session whose stream this is has ended. NULL: it is no such stream. */
    void (*end)(void *user);
};

struct mcp_call {
    struct mcp *mcp;
    struct mcp_call *next, *previous;
    struct mcp_session *session; /* NULL: none */
    enum mcp_era era;
    const char *version;             /* of the protocol, static */
    json_t *id;                      /* owned, as the next ones */
    json_t *params;                  /* NULL: none */
    size_t weight;                   /* bytes that `params` were, of mcp->held_bytes */
    json_t *token;                   /* for progress notifications; NULL: none are wanted */
    bool cacheable;                  /* the modern answer says for how long it is good */
    bool shared_cache;               /* and that it is the same for everybody */
    bool plain;                      /* of POST /mcp/tools/…: the answer is the bare result */
    bool small;                      /* the client does not take a large answer */
    bool lasts;                      /* it listens (listening.h): its answer is the end of that */
    const struct mcp_outlet *outlet; /* NULL: nobody waits any more */
    void *user;
    const char *session_id; /* to be told with the answer */
    bool handling;          /* inside its handler: freed by whoever called that */
    bool answered;

    /* Notifications can be sent from now on; NULL: never mind. */
    void (*carried)(struct mcp_call *call);
    /* What a handler waits for. */
    void (*cancel)(struct mcp_call *call);
    struct sandbox *sandbox;
    char sandbox_text[ID_TEXT_SIZE];
    uint64_t tag;
    void (*then)(struct mcp_call *call); /* when there is a sandbox */
    bool made_sandbox;                   /* for this call, because none was named */
    void *own;                           /* freed by the handler … */
    void (*own_free)(void *own);         /* … or with the call, by this */
    struct batch *batch;                 /* of a carrier (batch.h) */
};

/* For mcp.c and dispatch.c. */
struct mcp_call *call_new(struct mcp *mcp);
void call_free(struct mcp_call *call); /* takes it out of the list */

/* What was asked is not needed any more: for handlers that wait long. */
void call_drop_params(struct mcp_call *call);
/* The answer will come later. `cancel`: stop waiting. */
void call_wait(struct mcp_call *call, void (*cancel)(struct mcp_call *call));

/* The answer: members of the result, as JSON text without braces and line ends … */
void call_answer_members(struct mcp_call *call, const char *members, size_t length);
/* … or an object (stolen; NULL when memory is out) … */
void call_answer(struct mcp_call *call, json_t *result);
/* … or an error. `data` (stolen) may be NULL. */
void call_fail(struct mcp_call *call, unsigned status, enum rpc_code code, json_t *data,
               const char *format, ...) _printf_(5, 6);
/* The answers of a batch, joined by commas. */
void call_answer_list(struct mcp_call *call, const struct buffer *list);
/* A method of this name is not served. */
void call_fail_unknown(struct mcp_call *call, const char *method);

/* "io.modelcontextprotocol/subscriptionId", a member of `_meta`: which call this is about. 0 or -errno. */
int call_append_subscription(const struct mcp_call *call, struct buffer *out);
/* A notification: its method, and its params as members without braces. */
void call_notify(struct mcp_call *call, const char *method, const struct buffer *params);
/* "progress", as members without braces: sent if the client wants to know. */
void call_progress(struct mcp_call *call, const char *members, size_t length);

/* Stop: nobody wants the answer. The transport is not told. */
void call_cancel(struct mcp_call *call);
/* The client asked for that with a notification: the transport is told that there is no answer. */
void call_withdraw(struct mcp_call *call);
/* The transport is gone; the call goes on. */
void call_abandon(struct mcp_call *call);
