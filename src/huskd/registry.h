/* Every sandbox huskd knows, by id and by owner and name, and the tombstones of those that are gone, so that
 * their users learn why. Does not own the sandboxes and never calls them.
 *
 * A name belongs to its owner (caller.h): two owners may use the same one, and neither can tell. What somebody wrote is looked up
 * for him: an id; or `owner:name`; or a name, which is that of one of his own, or else, if he is an admin, that of the only one that
 * anybody has. What he may not see is not found, and looking for it takes as long as looking for what is not there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/id.h"
#include "base/link.h"
#include "husk/limits.h"

struct caller;
struct registry;
struct sandbox;

/* Why a sandbox is no more. */
enum ending {
    ENDED_CLOSED,
    ENDED_EXPIRED,
    ENDED_DIED,
    ENDED_UNMADE /* it never came to be: nobody was told its id, and it leaves no tombstone */
};

const char *ending_name(enum ending ending); /* "closed", "expired", "died", "not made" */

struct tombstone {
    struct id id;
    struct caller *owner;
    char name[MAX_NAME_LENGTH + 1];
    struct link_key
        link_key; /* who has a link learns that the sandbox is closed, without the API key */
    enum ending ending;
};

struct registry *registry_new(void);
struct registry *registry_free(
    struct registry *registry); /* NULL ok, returns NULL; must be empty */

/* Add under its id and, if it has one, its name; both must be free (see registry_name_taken). Who has a name has an owner. */
void registry_add(struct registry *registry, struct sandbox *sandbox);
/* Put a sandbox that was added without a name under the one it has now. */
void registry_add_name(struct registry *registry, struct sandbox *sandbox);
bool registry_name_taken(const struct registry *registry, const struct caller *owner,
                         const char *name);
/* Take it out; a tombstone stays unless it was never made. The oldest tombstone makes room. */
void registry_remove(struct registry *registry, struct sandbox *sandbox, enum ending ending);

struct sandbox *registry_find_id(const struct registry *registry, struct id id);
/* By what a caller wrote. NULL: no such sandbox, but perhaps a tombstone, or several that are meant equally. */
struct sandbox *registry_find(const struct registry *registry, const struct caller *caller,
                              const char *reference);
/* Did registry_find() find none because others have more than one of this name? Admins only. */
bool registry_ambiguous(const struct registry *registry, const struct caller *caller,
                        const char *reference);
const struct tombstone *registry_find_tombstone(const struct registry *registry,
                                                const struct caller *caller, const char *reference);
const struct tombstone *registry_find_tombstone_id(const struct registry *registry, struct id id);
size_t registry_count(const struct registry *registry);

/* All of them, oldest first. Removing the current one while iterating is fine if next was taken
 * before. */
struct sandbox *registry_first(const struct registry *registry);
struct sandbox *registry_next(const struct sandbox *sandbox);
