/* Which sandboxes are the pool's, for the next huskd: a file in the state directory, which no shim can reach.
 *
 * The record that the shim of a sandbox keeps is not enough. A shim reads what a hostile kernel writes; one that was taken over
 * could say that its sandbox is a fresh one of the pool, and the next huskd would give it to somebody else. So a sandbox is
 * taken back only if its id is here, and the id is crossed out before anybody is told of the sandbox.
 *
 * The file is a table of ids, all zero where there is none. It is opened by root, before huskd gives up its rights, and removed
 * by the anchor with the rest of the directory. Without a file (-1) nothing is remembered: the next huskd removes
 * warm sandboxes instead of taking them back. */
#pragma once

#include <stdbool.h>

#include "base/failure.h"
#include "base/id.h"
#include "husk/limits.h"

enum {
    LEDGER_TABLE_BYTES = MAX_POOL_SIZE * ID_BYTES /* what follows in the file is seal.h's */
};

struct ledger {
    int fd;
    struct id entries[MAX_POOL_SIZE];
};

/* The file below `state`, made if need be: a descriptor for ledger_read(), or -errno. */
int ledger_open(const char *state, struct failure *why);
/* Takes `fd`. */
void ledger_read(struct ledger *ledger, int fd);
void ledger_close(struct ledger *ledger);

bool ledger_has(const struct ledger *ledger, struct id id);
void ledger_add(struct ledger *ledger, struct id id); /* nothing happens when it is full */
void ledger_remove(struct ledger *ledger, struct id id);
