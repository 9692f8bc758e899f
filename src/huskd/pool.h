/* The warm pool: sandboxes that wait, their kernel ready, for somebody to ask for one. A create then takes one instead of
 * making one: no process is started, and with the limits that the pool's sandboxes have the keeper is not even asked.
 *
 * Which creates. Without `env`, which belongs to the kernel's process from its first moment: those with `env` are made. With
 * the limits that the configuration gives to those who do not ask: at once. With other limits: the keeper changes those of a
 * warm one (handover.h), and if it cannot, the sandbox is made, too.
 *
 * Members are ordinary sandboxes with a recipe in their record, which is all that makes them the pool's: on their way
 * (QUEUED, CREATING, STARTING), WARM, or ADAPTING. Nobody sees them: no id or name finds them, no list has them, and they leave
 * no tombstone. The one who takes one gives it his record, without a recipe, which the shim keeps from then on.
 *
 * Refilling never competes. It happens while nobody waits in line, with at most half of the places for creations, and QUIET_MS
 * after the last create (it does not wait longer than PATIENCE_MS for such silence). A burst that empties the pool goes on with
 * max_creating at a time, in the order in which they came; a member that gets ready meanwhile goes to the first in line.
 * A failure is repeated after one second, two, four, … sixty; it is told by /health but is no illness of the service.
 *
 * Bounds. `size` members, no more than fit into `memory_mb`, none while the machine is short of memory. A member takes one of
 * the max_sandboxes places only while nobody wants it: a create that needs the place gets it, and the member is removed.
 *
 * When something changes. The recipe says what a sandbox was made of: the version of Husk, the image (by its inode and time, so
 * that another one in the same place is noticed, too), the limits, and what else comes from the configuration. A member with
 * another recipe is removed: looked at when one is wanted, when one is made, and when one is adopted. After WARM_SECONDS a
 * member is replaced, so that none is older than the machine's idea of a fresh process. A member that does anything but wait
 * (its kernel died, say) is replaced.
 *
 * When somebody dies. Of a member: as for any sandbox. The keeper: members stay, nothing is made until it is back. huskd: the
 * shim of a member has its record, and the next huskd takes it back into its pool if it stands in the ledger (ledger.h), its
 * kernel has run nothing, the recipe is still right, and the keeper says that it has the limits that the record says; else it
 * is removed. When one is taken, the shim is sent the new record, then it is crossed out in the ledger, then the caller is
 * answered. A huskd that dies before the first step leaves a member of the pool; after it, a sandbox that has an owner, is
 * listed and expires: the same as for a create whose answer did not arrive. Nothing can be both, and nothing is in neither.
 * (The shim reads what a dead huskd has sent before it listens to the next one.)
 *
 * Owner: the loop thread. Fields are for everybody to read. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "huskd/ledger.h"
#include "huskd/record.h"

struct sandbox;
struct service;
struct timer;

struct pool {
    struct service *service;
    struct timer *timer;
    uint64_t size;                          /* that it should have */
    struct sandbox *members[MAX_POOL_SIZE]; /* oldest first; not those that are being removed */
    size_t count;
    size_t present; /* members, and those that are being removed */
    char recipe[RECIPE_SIZE];
    struct ledger ledger; /* those that wait */
    unsigned failed;      /* since the last one that worked */
    char last_failure[240];
    uint64_t not_before_ms; /* after a failure */
    uint64_t used_ms;       /* the last create */
    uint64_t lacking_ms;    /* since when it is not full; 0: it is */
};

struct pool *pool_new(struct service *service, int ledger_fd); /* takes `ledger_fd` */
struct pool *pool_free(struct pool *pool);                     /* NULL ok, returns NULL */

/* Every sandbox that was there has said who it is. */
void pool_begin(struct pool *pool);
/* Something has changed that may let it make more. Cheap; nothing happens before the loop's next round. */
void pool_wake(struct pool *pool);
/* Make none for so long. */
void pool_pause(struct pool *pool, uint64_t milliseconds);
size_t pool_warm(const struct pool *pool);   /* how many wait */
size_t pool_making(const struct pool *pool); /* how many are on their way */

/* Somebody wants a sandbox with these limits: the oldest that waits, or NULL. It stays a member until it is given. */
struct sandbox *pool_take(struct pool *pool, const struct sandbox_limits *limits);
/* Somebody needs a place: remove a member if all places are taken. */
void pool_make_room(struct pool *pool);

/* sandbox.c tells what becomes of members. A sandbox with a recipe exists; may be kept (adopted ones, see above); waits; is
 * no member any more; is gone, or somebody's. */
void pool_entered(struct pool *pool, struct sandbox *sandbox);
bool pool_accepts(const struct pool *pool, const struct sandbox *sandbox);
void pool_became_warm(struct pool *pool, struct sandbox *sandbox);
void pool_left(struct pool *pool, const struct sandbox *sandbox);
void pool_gone(struct pool *pool);
/* huskd ends; it is the next one's. */
void pool_forget(struct pool *pool, const struct sandbox *sandbox);
