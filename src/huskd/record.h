/* What huskd knows about a sandbox and could not learn again: its shim keeps it, so that the next
 * huskd finds it. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "base/link.h"
#include "husk/keeper_protocol.h"
#include "husk/limits.h"

enum {
    RECIPE_SIZE = 192,
    SEAL_BYTES = 32
};

struct record {
    char name[MAX_NAME_LENGTH + 1]; /* "": none */
    char owner[MAX_NAME_LENGTH +
               1]; /* name of a caller (caller.h); "": of the pool, it is nobody's yet */
    int64_t
        created_at; /* Unix seconds, as all times here: monotonic clocks do not outlive a process */
    int64_t expires_at; /* as it was told; what counts is … */
    int64_t
        expires_up; /* … the same in seconds since the machine was started: nobody sets that clock, and no sandbox outlives it */
    uint32_t idle_seconds; /* 0: never */
    bool auto_install;     /* for executions that do not say */
    struct sandbox_limits limits;
    struct link_key link_key; /* of links to its files; its shim signs with it */
    uint8_t seal[SEAL_BYTES]; /* of owner and name (seal.h) */
    char recipe[RECIPE_SIZE]; /* of the pool's: what it was made of. "": it is somebody's */
};

/* It ends so many seconds from now. */
void record_expire_in(struct record *record, int64_t seconds);

json_t *record_to_json(const struct record *record); /* new reference; NULL when memory is out */
bool same_limits(const struct sandbox_limits *one, const struct sandbox_limits *other);
/* A shim reads what a hostile kernel writes, so what it gives back is checked. 0 or -EINVAL. */
int record_from_json(const json_t *json, struct record *ret, struct failure *why);
