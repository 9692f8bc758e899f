/* One HTTP request, from its first line until its answer is sent. A handler either answers before it returns, or calls
 * request_wait() and answers later; while it waits the connection is suspended. If the client goes away meanwhile, `cancel`
 * is called, and nothing may be answered any more.
 *
 *   NEW ─► RECEIVING ─► HANDLING ─► WAITING ─► ANSWERED ─► SENT
 *    │       ⇅   └────────────┴─────────────────────┤
 *    │    PAUSED ───────────────────────────────────┤
 *    └──────────────────────────────────────────────┘
 *
 * A body is collected in memory, or, if the route has a body_taker, given to it as it comes. While that waits for something it is
 * PAUSED: the connection is suspended, and the client is slowed down by its own socket. */
#pragma once

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/id.h"
#include "http/raw_form.h"
#include "husk/limits.h"

struct caller;
struct install;
struct peer;
struct problem;
struct request;
struct route;
struct sandbox;
struct server;
struct service;
struct stream;
struct timer;

enum request_phase {
    REQUEST_NEW,
    REQUEST_RECEIVING,
    REQUEST_PAUSED,
    REQUEST_HANDLING,
    REQUEST_WAITING,
    REQUEST_ANSWERED,
    REQUEST_SENT
};

enum {
    MAX_METHOD_LENGTH = 16,
    MAX_PARAMETER_LENGTH = 255
};

/* Takes the body of a request in parts; then the route's handler is called. Each may answer (with a problem): what comes of the body
 * after that is thrown away. `take` may call request_pause(); `begin` may not, since libmicrohttpd would call for a second beginning. */
struct body_taker {
    void (*begin)(struct request *request); /* the headers are there, and admitted */
    size_t (*take)(struct request *request, const char *data,
                   size_t length); /* how much was taken: less only after request_pause() */
};

struct request {
    struct server *server;
    struct service *service;
    struct MHD_Connection *connection;
    struct peer *peer;
    struct request *next, *previous; /* of the server */
    enum request_phase phase;
    uint64_t started_ms;

    char method[MAX_METHOD_LENGTH + 1];
    char *path;           /* as sent, not decoded */
    char *query;          /* inside path's memory; NULL: none */
    char *authority;      /* of a target like "http://host/path"; NULL: it has none */
    struct raw_line line; /* while the headers are judged */
    char id[MAX_REQUEST_ID_LENGTH + 1];
    const struct route *route;
    struct caller *caller; /* who asks; for a signed link: whose it is. NULL: nobody that we know */
    char parameter[MAX_PARAMETER_LENGTH +
                   1]; /* what the route's first {…} stands for, decoded: a sandbox */
    char second_parameter[MAX_FILE_PATH_BYTES + 1]; /* and its second: a path, an execution, … */
    bool by_link;                                   /* a signed link does instead of a key */
    bool json;                                      /* Content-Type is application/json */
    bool malformed; /* nobody knows where it ends: it is answered at once */
    bool last;      /* nothing more is read from this connection */
    bool shared;    /* its origin may read the answer (CORS) */
    struct buffer body;
    size_t received;  /* bytes that a body_taker has taken */
    size_t discarded; /* bytes of a body that was refused */

    /* The answer. */
    unsigned status;
    struct MHD_Response *response;
    char allow[48];      /* for 405 */
    uint64_t file_size;  /* for 416 */
    size_t answer_bytes; /* of a large answer, in memory until the client has it */
    uint64_t answered_ms;
    bool suspended;
    bool lingers; /* the answer is a stream that has no end of its own */

    /* What a handler waits for; the handler's own. */
    void (*cancel)(struct request *request);
    struct sandbox *sandbox;
    uint64_t tag;
    struct install *install; /* NULL: none is waited for */
    struct stream *stream;   /* the answer is sent while it comes into being; NULL: it is not */
    struct timer *timer;
    json_t *collected;
    void *own; /* freed with the request, by: */
    void (*own_free)(void *own);
    char sandbox_text[ID_TEXT_SIZE]; /* for the log; "": none */
};

/* The second parameter as a path below the working directory: without "/home/user/" in front, if it is there. "" if that was
 * all. Borrowed. */
const char *request_file_path(const struct request *request);

struct request *request_new(struct server *server, const char *target);
void request_free(struct request *request);

/* A header, or NULL. Borrowed until the request ends. */
const char *request_header(const struct request *request, const char *name);

/* A flag of the query; *value stays as it is if it is not there. False with *problem filled in. */
bool request_query_flag(const struct request *request, const char *key, bool *value,
                        struct problem *problem);

/* The live sandbox that {id} names, into request->sandbox. False: there is none, and that is answered. */
bool request_find_sandbox(struct request *request);

/* No more of the body now. `cancel` as in request_wait(). */
void request_pause(struct request *request, void (*cancel)(struct request *request));
void request_go_on(struct request *request);
/* The answer will come later. */
void request_wait(struct request *request, void (*cancel)(struct request *request));
/* Here it is. Takes `response`; adds what every answer has. */
void request_answer(struct request *request, unsigned status, struct MHD_Response *response);
/* Is its answer not known yet, or not all of it? */
bool request_is_waiting(const struct request *request);
/* The client is gone, or huskd ends: stop waiting. The handler's cancel is called. */
void request_cancel(struct request *request);
