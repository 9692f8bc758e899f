/* Who asks: a name that owns sandboxes, and what it may do.
 *
 * A caller is not a key. Keys (keyring.h) lead to callers: several keys may lead to the same one, so that a key can be replaced
 * by another while both work. Without any key configured everybody is `admin`, and so is who has the key of husk.conf; the others
 * have their names from the keys file.
 *
 * The rule of ownership is caller_may_see(), and nothing else: an admin sees every sandbox, the others their own. Whatever a
 * caller may not see does not exist for him, in every answer.
 *
 * Callers are found by name, made when they are first heard of (from the keys file, or from the record of a sandbox whose owner
 * has no key any more), and live as long as the service: pointers to them are good anywhere. Owner: struct service; loop
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/allowance.h"
#include "husk/limits.h"

#define ADMIN_NAME "admin" /* of the key in husk.conf, and of everybody where there are no keys */

/* What a caller may have at the same time; 0: as much as there is. */
struct quotas {
    uint64_t sandboxes;
    uint64_t executions; /* code and commands that run or wait, in all his sandboxes */
    uint64_t requests_per_second;
    uint64_t burst; /* requests at once, after a while of silence; 0: two seconds' worth */
};

struct caller {
    struct caller *next; /* of struct callers */
    char name[MAX_NAME_LENGTH + 1];
    bool admin;
    bool keyed; /* there is a key that leads here */
    struct quotas quotas;
    struct allowance requests;
};

struct callers;

struct callers *callers_new(void);                     /* with one: ADMIN_NAME */
struct callers *callers_free(struct callers *callers); /* NULL ok, returns NULL */

/* The caller of this name (name.h says which can be); if there is none yet, a new one that may see nothing of others. */
struct caller *callers_get(struct callers *callers, const char *name);
struct caller *callers_admin(const struct callers *callers);
struct caller *callers_first(const struct callers *callers); /* then ->next */

/* May he see a sandbox of this owner? NULL: it is nobody's yet, and nobody may. */
bool caller_may_see(const struct caller *caller, const struct caller *owner);
/* May he send a request now? It counts. False: not before so many seconds. */
bool caller_may_ask(struct caller *caller, uint64_t now_ms, unsigned *ret_seconds);
