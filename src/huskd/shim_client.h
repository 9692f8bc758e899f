/* The connection to the shim of one sandbox. Calls carry a tag and are answered by a callback,
 * exactly once, from the loop or from shim_client_close(); never from inside shim_client_call().
 * What a shim sends is not trusted further than its own sandbox: anything odd ends the connection.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"
#include "husk/shim_protocol.h"
#include "loop/loop.h"

struct problem;
struct shim_client;

struct shim_answer {
    const struct problem *problem; /* NULL: it worked */
    struct shim_result_head head;  /* of SHIM_RESULT: what the rest is about */
    const char *body; /* the JSON of the answer; borrowed. Empty at the end of a stream */
    size_t length;
};
typedef void (*shim_callback)(const struct shim_answer *answer, void *user);
/* Bytes of a stream, borrowed; shim_client_credit() when they are passed on. */
typedef void (*shim_data_callback)(const char *data, size_t length, void *user);

enum shim_state {
    SHIM_IS_NEW,
    SHIM_IS_STARTING,
    SHIM_IS_READY,
    SHIM_IS_BUSY,
    SHIM_IS_RESTARTING,
    SHIM_IS_DEAD
};

struct shim_status {
    enum shim_state state;
    uint64_t execution_count;
    uint32_t queued;
    uint32_t commands; /* that run */
    json_t *kernel;    /* borrowed, NULL: not told */
    bool is_answer;    /* to SHIM_HELLO; the others come unasked and say nothing about the record */
    json_t *record;    /* borrowed, NULL: there is none */
};

struct shim_request {
    const char *payload;
    size_t length;
    shim_callback callback;
    shim_data_callback data; /* NULL: it is no stream */
    void *user;
    /* Well beyond what it may take: after that the shim counts as lost. The time in which it waits for credit does not
     * count. */
    uint64_t patience_ms;
};

/* Any of these may close the client. */
struct shim_events {
    void (*status)(const struct shim_status *status, void *user);
    void (*lost)(const char *reason,
                 void *user); /* no kernel can be had, or the shim is gone: why */
    /* pip in the sandbox wants packages (SHIM_WANTED), or went away; shim_client_reply() answers. NULL: nobody cares */
    void (*wanted)(uint64_t tag, const char *payload, size_t length, void *user);
    void (*unwanted)(uint64_t tag, void *user);
    void *user;
};

int shim_client_connect(struct loop *loop, const char *path, const struct shim_events *events,
                        struct shim_client **ret, struct failure *why);
/* Answer every open call with `why` and free the client. */
void shim_client_close(struct shim_client *client, const struct problem *why);

/* A message that has no answer of its own: SHIM_HELLO, SHIM_START, SHIM_RECORD. 0 or -errno. */
int shim_client_tell(struct shim_client *client, enum shim_type type, const char *payload,
                     size_t length);
/* To who asked with SHIM_WANTED: SHIM_SAY, SHIM_SAID. 0 or -errno. */
int shim_client_reply(struct shim_client *client, enum shim_type type, uint64_t tag,
                      const char *payload, size_t length);
/* A message that is answered: SHIM_EXECUTE, SHIM_INTERRUPT, SHIM_RESTART, SHIM_INPUT, SHIM_FETCH, SHIM_ASK, SHIM_COMMAND… 0, -ENOSPC when
 * the shim does not keep up. */
int shim_client_call(struct shim_client *client, enum shim_type type,
                     const struct shim_request *request, uint64_t *ret_tag);
/* How many SHIM_EXECUTE and SHIM_COMMAND are not answered yet. */
size_t shim_client_running(const struct shim_client *client);
/* So many bytes of this call's stream were passed on: as many more may come. */
void shim_client_credit(struct shim_client *client, uint64_t tag, size_t bytes);
/* The callbacks of this call will not be called any more; an execution, a question or a command is cancelled, too. */
void shim_client_forget(struct shim_client *client, uint64_t tag);
