/* The log lines that say who did what: for people who look into what happened, and for programs that count. Every one has the
 * field `audit`, with one of these words:
 *
 *   created   a sandbox became somebody's: sandbox, name, owner
 *   disowned  what its shim says of its owner is not what it was given (seal.h), and it is the admin's now: sandbox, claimed_owner,
 *             claimed_name
 *   ended     it is gone: sandbox, name, owner, why (closed, expired, died, not made), by (whose request, if it was one), detail
 *   denied    a request without a good key (http/server.c): client (its address), method, path
 *   keys      the keys were read: count; or could not be, and the old ones stay: reason
 *   tls       the same for the certificate */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/allowance.h"

struct sandbox;

void audit_created(const struct sandbox *sandbox);
void audit_ended(const struct sandbox *sandbox);
void audit_disowned(const struct sandbox *sandbox, const char *owner, const char *name);

/* What strangers do fills no disk: of requests without a key only so many a second get a line, and that says how many did not since
 * the one before (`unsaid`). */
struct audit_limit {
    struct allowance allowance;
    size_t unsaid;
};
/* May another line about strangers be written? Then `*ret_unsaid` is how many were not. */
bool audit_may_tell(struct audit_limit *limit, size_t *ret_unsaid);

/* `reason` NULL: it worked. */
void audit_keys(size_t count, const char *reason);
void audit_tls(const char *reason);
