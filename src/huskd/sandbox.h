/* One sandbox, from the request to make it until nothing of it is left.
 *
 *   QUEUED ─► CREATING ─► STARTING ─► READY ⇄ BUSY
 *   (in line) (keeper)    (shim)        ⇅      ⇅         any state but GONE ─► CLOSING ─► GONE
 *             ADOPTING ───────────────► RESTARTING
 *                  STARTING, ADOPTING ─► WARM ⇄ ADAPTING,  both ─► READY
 *
 * ADOPTING is where a sandbox begins that an earlier huskd made. WARM is one of the pool (pool.h), ADAPTING one whose limits are
 * being changed for somebody who waits in QUEUED for it to take the place of his own: if that fails he gets in line. READY, BUSY and RESTARTING follow what the shim says.
 * A sandbox in GONE is freed at once. Everybody who waits for something of a sandbox is answered before that: a pointer
 * to a sandbox is good for as long as one waits. Fields are for everybody to read, for sandbox.c alone to write
 * (`partner` and `plain`: handover.c). */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "husk/keeper_protocol.h"
#include "huskd/problem.h"
#include "huskd/record.h"
#include "huskd/registry.h"
#include "huskd/sandbox_state.h"
#include "huskd/shim_client.h"
#include "huskd/slots.h"

struct caller;
struct packages;
struct service;
struct timer;

/* `problem` NULL: it worked. */
typedef void (*sandbox_callback)(struct sandbox *sandbox, const struct problem *problem,
                                 void *user);

struct sandbox_waiter {
    sandbox_callback callback; /* NULL: nobody */
    void *user;
    const struct caller *by; /* for the log: whose request it was; NULL: nobody's */
};

struct registry_links { /* registry.c's */
    struct sandbox *next, *previous;
    struct sandbox *same_id_bucket;
    struct sandbox *same_name_bucket;
    bool named;
};

struct sandbox {
    struct service *service;
    struct id id;
    char text[ID_TEXT_SIZE]; /* the id, as people see it */
    enum sandbox_state state;
    struct record record;
    struct caller *owner; /* whom record.owner names; NULL: it is nobody's yet */
    uint64_t execution_count;
    uint32_t queued;
    uint32_t commands; /* that run */
    json_t *kernel;    /* what the shim told about it, or NULL */
    uint64_t used_ms;  /* last use, monotonic */
    bool swept;        /* expiry.c's mark */

    struct registry_links links;
    struct slot slot;
    struct timer *timer; /* deadline while it is made, expiry afterwards */
    struct shim_client *shim;
    struct packages *packages; /* packages.c's; NULL: none was asked for */
    struct sandbox
        *partner;           /* ADAPTING: who gets it, NULL: he went away. QUEUED: what he may get */
    bool plain;             /* QUEUED: a warm one would do */
    char *start;            /* SHIM_START, until it is sent */
    bool with_keeper;       /* the keeper has, or may have, something of it */
    bool create_asked;      /* KEEPER_CREATE is not answered yet */
    uint64_t keeper_tag;    /* of the last question about it */
    enum ending ending;     /* in CLOSING: why */
    struct problem problem; /* in CLOSING: what those who wait are told */
    struct sandbox_waiter made;
    struct sandbox_waiter closed;
};

/* Make one, or take a warm one. It has a link key of its own. `env` (borrowed) is an object of strings, or NULL. If what is
 * returned is live, it was warm, and that is all. Otherwise `made` is called once, from the loop, when the kernel answers or
 * when nothing of the failure is left; with the sandbox that was made, which may be a warm one in place of that which was
 * returned and is no more. It belongs to record->owner. NULL: refused, see *problem. */
struct sandbox *sandbox_create(struct service *service, const struct record *record, json_t *env,
                               struct sandbox_waiter made, struct problem *problem);
/* Take over one that an earlier huskd made. `made` as above. If it cannot be used it is removed. `limits`: as the keeper knows
 * them. */
void sandbox_adopt(struct service *service, struct id id, const struct sandbox_limits *limits,
                   struct sandbox_waiter made);

/* For the pool. Make one for it; `record` has a recipe, `made` as above. False: out of memory. */
bool sandbox_warm_up(struct service *service, const struct record *record,
                     struct sandbox_waiter made);
/* For handover.c: it waits in the pool (again); it takes the place of one that is QUEUED, which is no more then. */
void sandbox_become_warm(struct sandbox *sandbox);
void sandbox_inherit(struct sandbox *from, struct sandbox *warm);
/* Whose place in line this is. */
struct sandbox *sandbox_of_slot(struct slot *slot);

/* End it. Those who wait for something are told `problem`; `closed` is called when nothing of it is left, which may be
 * at once: do not touch the sandbox afterwards. */
void sandbox_close(struct sandbox *sandbox, enum ending ending, const struct problem *problem,
                   struct sandbox_waiter closed);
/* The keeper says it ended by itself and is removed. */
void sandbox_died(struct sandbox *sandbox);
/* The caller of sandbox_create() went away before it had its answer: undo. */
void sandbox_abandon(struct sandbox *sandbox);
/* The caller of sandbox_close() went away. */
void sandbox_forget_close(struct sandbox *sandbox);

/* To the shim (see shim_client_call()); live sandboxes only. 0 with the tag; -ENOSPC: the shim does not keep up;
 * -EDQUOT: too much runs already (quota_tell_executions()). */
int sandbox_call(struct sandbox *sandbox, enum shim_type type, const struct shim_request *request,
                 uint64_t *ret_tag);
/* So much of a stream was passed on to the caller. */
void sandbox_credit_call(struct sandbox *sandbox, uint64_t tag, size_t bytes);
/* The caller went away: its callback is not called; an execution is interrupted, a command killed. */
void sandbox_forget_call(struct sandbox *sandbox, uint64_t tag);
/* Somebody used it otherwise than through its shim: that counts too (idle_seconds). */
void sandbox_used(struct sandbox *sandbox);
/* A new end of its life, from now. */
void sandbox_extend(struct sandbox *sandbox, uint64_t ttl_seconds);

/* huskd ends: let go of every sandbox. They live on. Nobody may wait for anything of them any more. */
void sandbox_forget_all(struct service *service);
