#include "huskd/seal.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "huskd/ledger.h"

_Static_assert(SEAL_KEY_BYTES == crypto_auth_hmacsha256_KEYBYTES, "the key of HMAC-SHA256");
_Static_assert(SEAL_BYTES == crypto_auth_hmacsha256_BYTES, "its result");

struct seal_key seal_key_read(int ledger_fd)
{
    struct seal_key key = {0};
    if (ledger_fd < 0)
        return key;
    if (pread(ledger_fd, key.bytes, sizeof key.bytes, LEDGER_TABLE_BYTES) == sizeof key.bytes)
        return key;
    randombytes_buf(key.bytes, sizeof key.bytes);
    if (pwrite(ledger_fd, key.bytes, sizeof key.bytes, LEDGER_TABLE_BYTES) != sizeof key.bytes)
        log_event(LOG_ERROR,
                  "the key of seals cannot be written: another huskd will not take over "
                  "today's sandboxes",
                  "reason", strerror(errno), NULL);
    return key;
}

/* Both texts with their ends: no two records look alike. */
static void compute(const struct seal_key *key, struct id id, const struct record *record,
                    uint8_t seal[SEAL_BYTES])
{
    crypto_auth_hmacsha256_state state;
    (void)crypto_auth_hmacsha256_init(&state, key->bytes, sizeof key->bytes);
    (void)crypto_auth_hmacsha256_update(&state, id.bytes, sizeof id.bytes);
    (void)crypto_auth_hmacsha256_update(&state, (const uint8_t *)record->owner,
                                        strlen(record->owner) + 1);
    (void)crypto_auth_hmacsha256_update(&state, (const uint8_t *)record->name,
                                        strlen(record->name) + 1);
    (void)crypto_auth_hmacsha256_final(&state, seal);
}

void seal_set(const struct seal_key *key, struct id id, struct record *record)
{
    compute(key, id, record, record->seal);
}

bool seal_good(const struct seal_key *key, struct id id, const struct record *record)
{
    uint8_t right[SEAL_BYTES];
    compute(key, id, record, right);
    return sodium_memcmp(right, record->seal, sizeof right) == 0;
}
