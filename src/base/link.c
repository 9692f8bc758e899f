#include "base/link.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include "base/percent.h"
#include "base/text.h"

static const char purpose[16] = "husk download 1"; /* signatures of other things differ */

_Static_assert(LINK_KEY_BYTES == crypto_auth_hmacsha256_KEYBYTES, "the key of HMAC-SHA256");
_Static_assert(LINK_SIGNATURE_BYTES == crypto_auth_hmacsha256_BYTES, "its result");

struct link_key link_key_new(void)
{
    struct link_key key;
    randombytes_buf(key.bytes, sizeof key.bytes);
    return key;
}

void link_key_format(const struct link_key *key, char text[LINK_KEY_TEXT_SIZE])
{
    (void)sodium_bin2hex(text, LINK_KEY_TEXT_SIZE, key->bytes, sizeof key->bytes);
}

/* Lower case only: what we write has one spelling. */
static int parse_hex(const char *text, uint8_t *bytes, size_t count)
{
    if (strlen(text) != 2 * count || strspn(text, "0123456789abcdef") != 2 * count)
        return -EINVAL;
    return sodium_hex2bin(bytes, count, text, 2 * count, NULL, NULL, NULL) < 0 ? -EINVAL : 0;
}

int link_key_parse(const char *text, struct link_key *ret)
{
    return parse_hex(text, ret->bytes, sizeof ret->bytes);
}

static void sign(const struct link_target *target, int64_t expires,
                 uint8_t signature[LINK_SIGNATURE_BYTES])
{
    uint8_t moment[8];
    for (unsigned i = 0; i < sizeof moment; i++)
        moment[i] = (uint8_t)((uint64_t)expires >> (56 - 8 * i));
    crypto_auth_hmacsha256_state state;
    (void)crypto_auth_hmacsha256_init(&state, target->key->bytes, sizeof target->key->bytes);
    (void)crypto_auth_hmacsha256_update(&state, (const uint8_t *)purpose, sizeof purpose);
    (void)crypto_auth_hmacsha256_update(&state, target->id.bytes, sizeof target->id.bytes);
    (void)crypto_auth_hmacsha256_update(&state, moment, sizeof moment);
    (void)crypto_auth_hmacsha256_update(&state, (const uint8_t *)target->path,
                                        strlen(target->path));
    (void)crypto_auth_hmacsha256_final(&state, signature);
}

int link_format(const struct link_target *target, int64_t expires, struct buffer *out)
{
    uint8_t signature[LINK_SIGNATURE_BYTES];
    char id[ID_TEXT_SIZE], text[LINK_SIGNATURE_TEXT_SIZE];
    sign(target, expires, signature);
    id_format(target->id, id);
    (void)sodium_bin2hex(text, sizeof text, signature, sizeof signature);
    int r = buffer_printf(out, "/sandbox/%s/download/", id);
    if (r >= 0)
        r = percent_encode(target->path, "/", out);
    if (r >= 0)
        r = buffer_printf(out, "?expires=%" PRId64 "&signature=%s", expires, text);
    return r;
}

int link_check(const struct link_target *target, const char *expires, const char *signature,
               int64_t now)
{
    uint64_t until;
    uint8_t claimed[LINK_SIGNATURE_BYTES], right[LINK_SIGNATURE_BYTES];
    if (strlen(expires) >= LINK_EXPIRES_TEXT_SIZE || parse_u64(expires, 0, INT64_MAX, &until) < 0 ||
        parse_hex(signature, claimed, sizeof claimed) < 0)
        return -EACCES;
    sign(target, (int64_t)until, right);
    if (sodium_memcmp(claimed, right, sizeof right) != 0)
        return -EACCES;
    return (int64_t)until < now ? -ETIME : 0;
}
