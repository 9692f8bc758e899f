/* Whose a sandbox is, so that its shim cannot say otherwise.
 *
 * The record of a sandbox is kept by its shim, which reads what a hostile kernel writes. One that was taken over could tell the next huskd
 * that its sandbox belongs to somebody else, under a name that he uses, and wait for what he puts into it. So huskd seals id, owner
 * and name with a key that no shim can reach: it is in the ledger's file (ledger.h), behind the table, and made with it. A sandbox whose
 * record has another seal is the admin's from then on, without a name: nobody takes it for his own, and nothing is lost where it was the key that was lost. sodium_init() comes first. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "huskd/record.h"

enum {
    SEAL_KEY_BYTES = 32
};

struct seal_key {
    uint8_t bytes[SEAL_KEY_BYTES];
};

/* The key of this ledger; if it has none yet, a new one. Without a ledger (-1) all zero: for tests. */
struct seal_key seal_key_read(int ledger_fd);
/* Put the seal into a record that is otherwise complete. */
void seal_set(const struct seal_key *key, struct id id, struct record *record);
bool seal_good(const struct seal_key *key, struct id id, const struct record *record);
