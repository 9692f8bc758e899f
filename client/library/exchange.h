/* One request and its answer. The connection is kept for the next one.
 *
 *   prepared ─► connecting ─► sending, waiting, receiving ─► answered ─► judged by its status
 *                  └─ CONNECT      └─ BROKEN, TIMEOUT, CANCELLED, ANSWER     └─ REFUSED, ANSWER
 *
 * Nothing that may have run is sent twice: curl itself would send a request again when a kept connection ends without an answer;
 * it is stopped from doing so (transfer.c), unless the request only reads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "husk.h"

/* A body that is not in memory as a whole. */
struct exchange_upload {
    husk_source source;
    void *user;
    uint64_t length; /* exactly so many bytes, unless it is not known */
    bool unknown;
    const char *type; /* Content-Type */
};

/* What is done with a body as it comes: only of an answer that says yes. 0, or minus an enum husk_error_kind with the
 * error filled in, which ends the exchange. */
typedef int (*exchange_sink)(void *user, const char *data, size_t length, struct husk_error *error);

struct exchange {
    const char *method;
    const char *path;                     /* with its query, encoded (path.h) */
    const char *accept;                   /* NULL: application/json */
    const char *body;                     /* JSON; NULL: none */
    const struct exchange_upload *upload; /* or this; NULL: none */
    double patience;                      /* seconds of silence, if more than the client's own */
    bool reads;                           /* changes nothing: may be repeated */
    bool also_503;                        /* that is an answer, too, if it is not a problem */
    bool whole;         /* no answer that does not tell its length: a cut one would look complete */
    bool tells;         /* progress */
    exchange_sink sink; /* NULL: the body is kept */
    void *user;
};

struct answer {
    int status;
    int retry_after;    /* seconds; 0: not told */
    bool incomplete;    /* X-Husk-Incomplete */
    bool chunked;       /* Transfer-Encoding */
    char type[128];     /* Content-Type; "" */
    struct buffer body; /* with a NUL behind it; what the sink got is not in it */
};

/* `husk` and the arguments of the call must make sense already. On failure nothing is to be freed; else exchange_answer_free(). */
int exchange_run(struct husk *husk, const struct exchange *exchange, struct answer *ret,
                 struct husk_error *error);
void exchange_answer_free(struct answer *answer);

/* For one call that changes something and whose answer says no more than that it worked. `body` NULL: {}. */
int exchange_order(struct husk *husk, const struct exchange *exchange, struct husk_error *error);
